# The notebooks in a container, of the versions in constraints.txt:
#   docker build -t replication . && docker run --rm -p 127.0.0.1:8888:8888 \
#       -v replication-results:/replication/results replication
FROM python:3.11-slim
RUN apt-get update && apt-get install --yes --no-install-recommends make git \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home reader && mkdir /replication && chown reader /replication
USER reader
WORKDIR /replication
COPY --chown=reader . .
RUN make setup
EXPOSE 8888
CMD ["make", "lab", "ARGS=--ip=0.0.0.0 --no-browser"]
