# kproxy in a container: non-root, read-only root file system, nothing in it but Python and kproxy.
#
#   docker build -t kproxy .
#   docker run --rm --read-only -p 19092-19112:19092-19112 kproxy run -b kafka.example:9092 --advertise localhost
#
# Ports, addresses and why --advertise is needed: deploy/README.md.

FROM python:3.13-slim AS build
WORKDIR /src
# What compiles the data plane (docs/performance.md) is in this stage only, and not fetched where the base has it. Of the
# compiler's version nothing depends.
# hadolint ignore=DL3008
RUN command -v gcc || { apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev; }
# Without pip in it, the environment is 12 MB smaller; the image's own pip fills it.
RUN python -m venv --without-pip /opt/kproxy
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY kproxy ./kproxy
# Bytecode too is compiled here, since nothing can be written where it runs.
RUN KPROXY_COMPILED=1 pip --python /opt/kproxy/bin/python install --no-cache-dir --compile .


FROM python:3.13-slim
LABEL org.opencontainers.image.title="kproxy" \
      org.opencontainers.image.description="A local Kafka proxy that makes unreachable advertised broker addresses just work" \
      org.opencontainers.image.licenses="Apache-2.0"

COPY --from=build /opt/kproxy /opt/kproxy
# The weakest source of options: flags and KPROXY_* win over it, a file mounted in its place replaces it.
COPY deploy/image.yaml /etc/kproxy/kproxy.yaml

ENV PATH=/opt/kproxy/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    KPROXY_CONFIG=/etc/kproxy/kproxy.yaml

# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
WORKDIR /
EXPOSE 19091 19092 19093-19112
STOPSIGNAL SIGTERM

# Healthy when every listener is bound and a bootstrap server has answered. Not urllib: it would ask HTTP_PROXY.
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s \
    CMD ["python", "-IS", "-c", "from http.client import HTTPConnection; c = HTTPConnection('127.0.0.1', 19091, timeout=4); c.request('GET', '/readyz'); raise SystemExit(c.getresponse().status != 200)"]

ENTRYPOINT ["kproxy"]
CMD ["run"]
