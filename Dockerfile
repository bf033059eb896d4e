# The command `bucketlake` with Spark, the page and object stores.
#   docker build -t bucketlake .
#   docker run --rm -v "$PWD/warehouse:/warehouse" bucketlake tables
#   docker run --rm -it -v "$PWD/warehouse:/warehouse" bucketlake sql
#   docker run --rm -p 8765:8765 -v "$PWD/warehouse:/warehouse" bucketlake ui --host 0.0.0.0 --name localhost:8765
# The folder has to be there, and writable for the user 1000: Docker makes a missing one, for root alone.
# The image holds no credentials: give options of object stores by the environment or a mounted configuration.

FROM python:3.12-slim-bookworm AS wheel
WORKDIR /src
RUN pip install --no-cache-dir "hatchling>=1.25"
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m hatchling build -t wheel -d /wheels

FROM python:3.12-slim-bookworm
# Spark runs on a Java 17; ps is what its scripts look for.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/*
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/bucketlake-*.whl)[spark,cli,ui,duckdb,plot,demo]" && rm -r /wheels
RUN useradd --create-home --uid 1000 lake && mkdir /warehouse && chown lake /warehouse
USER lake
WORKDIR /home/lake
ENV BUCKETLAKE_WAREHOUSE=/warehouse PYTHONUNBUFFERED=1
VOLUME /warehouse
ENTRYPOINT ["tini", "--", "bucketlake"]
CMD ["--help"]
