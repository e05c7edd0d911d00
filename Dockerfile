# `docker build --tag netrepro .`, then `docker run netrepro`: as `./reproduce.sh` on a machine of one's own.
FROM docker.io/library/python:3.11-bookworm
COPY . /netrepro
WORKDIR /netrepro
RUN make setup
CMD ["./reproduce.sh"]
