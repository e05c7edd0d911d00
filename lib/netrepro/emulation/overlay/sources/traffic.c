// Request-response and bulk traffic of many flows, and what it costs.
// traffic server KIND ADDRESS PORT FLOWS          prints "ready", then a line of results when all flows have ended
// traffic client KIND ADDRESS PORT FLOWS SECONDS BYTES  prints a line of results; BYTES of each datagram of a stream
// KIND: tcp_rr, udp_rr, tcp_stream, udp_stream. Results: transactions (or bytes, or datagrams), the longest time of a
// flow in seconds, processor seconds of all flows. A server's flow ends with its connection or with an empty datagram.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, MOST_FLOWS = 256 };
struct result { double count, seconds; };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void serve(int s, int tcp, int stream, struct result *r) {
    static char buffer[BLOCK];
    double begin = 0;
    if (tcp) {
        int one = 1, accepted = accept(s, 0, 0);
        if (accepted < 0) fail("accept");
        setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        s = accepted;
        begin = now();
    }
    struct sockaddr_in from;
    struct timeval patience = {1, 0}; // where the empty datagrams were lost in a full buffer
    if (!tcp) setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    for (int waited = 0; waited < 10;) {
        socklen_t length = sizeof from;
        ssize_t got = tcp ? recv(s, buffer, stream ? BLOCK : 1, 0)
                          : recvfrom(s, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &length);
        if (got < 0 && errno == EAGAIN && !begin) {
            waited++;
            continue;
        }
        if (got <= 0) return;
        if (!tcp && stream && got == 1) { // the greeting
            sendto(s, buffer, 1, 0, (struct sockaddr *)&from, length);
            continue;
        }
        if (!begin) begin = now();
        r->count += stream && tcp ? got : 1;
        r->seconds = now() - begin;
        if (stream) continue;
        if (tcp ? send(s, buffer, 1, 0) < 0 : sendto(s, buffer, 1, 0, (struct sockaddr *)&from, length) < 0) return;
    }
}

static void ask(int s, int tcp, int stream, double seconds, int datagram, struct result *r) {
    static char buffer[BLOCK];
    double begin = now(), end = begin + seconds, at = begin;
    struct timeval patience = {0, 200000};
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    // A connection is established only once packets went both ways; iperf3's UDP test begins like this too.
    for (int i = 0; stream && !tcp && i < 20; i++) {
        send(s, buffer, 1, 0);
        if (recv(s, buffer, 1, 0) > 0) break;
    }
    while ((at = now()) < end) {
        ssize_t sent = send(s, buffer, !stream ? 1 : tcp ? BLOCK : datagram, 0);
        if (sent < 0 && errno != EAGAIN && errno != ENOBUFS && errno != EPERM) break;
        if (stream) {
            r->count += sent < 0 ? 0 : tcp ? sent : 1;
            continue;
        }
        ssize_t got = recv(s, buffer, 1, 0);
        if (got > 0) r->count += 1;
        else if (tcp && got < 0) break;  // a lost datagram is sent again, a lost connection is not
    }
    r->seconds = now() - begin;
    for (int i = 0; !tcp && i < 5; i++) {
        send(s, buffer, 0, 0);
        usleep(2000);
    }
}

int main(int n, char **words) {
    int client = n > 1 && !strcmp(words[1], "client");
    if (n < (client ? 8 : 6)) return 2;
    int tcp = !strncmp(words[2], "tcp", 3), stream = !!strstr(words[2], "stream");
    int flows = atoi(words[5]), datagram = client ? atoi(words[7]) : 0, one = 1, sockets[MOST_FLOWS], failed = 0;
    double seconds = client ? atof(words[6]) : 0;
    struct sockaddr_in at = {.sin_family = AF_INET};
    if (flows < 1 || flows > MOST_FLOWS || datagram > BLOCK) return 2;
    inet_pton(AF_INET, words[3], &at.sin_addr);
    struct result *results = mmap(0, flows * sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < flows; i++) {
        at.sin_port = htons(atoi(words[4]) + i);
        int s = sockets[i] = socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (tcp) setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if ((client ? connect : bind)(s, (struct sockaddr *)&at, sizeof at)) fail(client ? "connect" : "bind");
        if (!client && tcp && listen(s, 1)) fail("listen");
    }
    if (!client) printf("ready\n"), fflush(stdout);
    for (int i = 0; i < flows; i++) {
        if (fork()) continue;
        client ? ask(sockets[i], tcp, stream, seconds, datagram, results + i) : serve(sockets[i], tcp, stream, results + i);
        _exit(0);
    }
    for (int i = 0; i < flows; i++) close(sockets[i]);
    for (int status; wait(&status) > 0;) failed |= status;
    struct result all = {0, 0};
    for (int i = 0; i < flows; i++) {
        all.count += results[i].count;
        if (results[i].seconds > all.seconds) all.seconds = results[i].seconds;
    }
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    printf("%.0f %.9f %.6f\n", all.count, all.seconds,
           used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1e-6 * (used.ru_utime.tv_usec + used.ru_stime.tv_usec));
    return !!failed;
}
