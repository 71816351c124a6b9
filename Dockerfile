# docker build -t epochfence .               the command, without Java
# docker build -t epochfence --target java . with Java, for --engine spark
# docker build -t epochfence --target executor . for executors of Spark on Kubernetes
FROM python:3.11.14-slim-bookworm AS build
WORKDIR /source
RUN python -m venv /opt/epochfence
COPY requirements requirements
RUN sed -n 's|^\([A-Za-z0-9._-]*==.*\) \\$|\1|p' requirements/all.txt > constraints.txt
COPY pyproject.toml setup.py README.md LICENSE py.typed *.py ./
COPY checker checker
COPY cli cli
COPY diagrams diagrams
COPY language language
COPY model model
COPY spec spec
RUN /opt/epochfence/bin/pip install --no-cache-dir --constraint constraints.txt '.[check,broker,explore]'

FROM build AS build-java
RUN /opt/epochfence/bin/pip install --no-cache-dir --constraint constraints.txt '.[check,broker,explore,spark]'

FROM python:3.11.14-slim-bookworm AS java
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends openjdk-17-jre-headless && rm -rf /var/lib/apt/lists/*
# Hadoop, which Spark has inside, asks for the user's name.
RUN echo epochfence:x:10001:10001::/tmp:/bin/sh >> /etc/passwd
COPY --from=build-java /opt/epochfence /opt/epochfence
ENV PATH=/opt/epochfence/bin:$PATH HOME=/tmp
WORKDIR /data
# Whoever runs it may write here.
RUN chmod 1777 .
USER 10001:10001
ENTRYPOINT ["epochfence"]

FROM java AS executor
ENTRYPOINT ["python", "-m", "epochfence.checker.spark.kubernetes"]

FROM python:3.11.14-slim-bookworm AS plain
COPY --from=build /opt/epochfence /opt/epochfence
ENV PATH=/opt/epochfence/bin:$PATH HOME=/tmp
WORKDIR /data
# Whoever runs it may write here.
RUN chmod 1777 .
USER 10001:10001
ENTRYPOINT ["epochfence"]
