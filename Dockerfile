# `docker build --tag netrepro .`, then `docker run netrepro`: as `./reproduce.sh` on a machine of one's own.
# The digest decides which image this is, for every kind of processor; the tag says it in words.
FROM docker.io/library/python:3.11.15-bookworm@sha256:a8f8fbe1a0edc9e4dddafa64ba73f7e04be7be5ebc23f332362e779e0a2e4e52
# Nothing here needs root. What lands in a mounted folder belongs to this user's number.
ARG USER_ID=1000
RUN useradd --create-home --uid "$USER_ID" netrepro && install --directory --owner netrepro --group netrepro /netrepro
USER netrepro
COPY --chown=netrepro:netrepro . /netrepro
WORKDIR /netrepro
RUN make setup && mkdir -p runs
# So that each container has it at once. Without it (no network), one line says so, and the simulator serves.
RUN .venv/bin/netrepro kernel build --if-possible
CMD ["./reproduce.sh"]
