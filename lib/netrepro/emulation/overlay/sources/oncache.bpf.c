// The four programs of ONCache (Lin et al., NSDI 2025): what is constant of a flow on its way through an overlay is
// cached, and later packets go from container to network card, and back, without it. Licence of what the kernel
// loads: Dual MIT/GPL.
//
// Compile-time settings: TUNNEL_PORT, L1_ENTRIES, L2_ENTRIES, INGRESS_ENTRIES, FILTER_ENTRIES, REVERSE_CHECK,
// ROUTE_CHECK (the way back needs both levels of the egress cache), CONSTANT_PORT (0: from the flow's hash), PRINTS.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define OUTER_BYTES 50  // IPv4, UDP, tunnel header, inner Ethernet: put in behind the first 14 bytes
#define HEADER_BYTES 64 // all that stands in front of the inner IPv4 header
#define MARKS 0x0c      // in the inner header's type of service: the two lowest bits of DSCP
#define MISS 0x04       // a cache had no entry
#define ESTABLISHED 0x08 // set by the overlay, once its connection tracking has seen both directions
#define EGRESS 1
#define INGRESS 2

struct flow { // seen from this host, so that both directions share an entry
    __be32 local, remote;
    __be16 local_port, remote_port;
    __u32 protocol;
};
struct route { // to another host
    __u8 header[HEADER_BYTES];
    __u32 interface;
};
struct container {
    __u32 interface; // the host's end of its veth
    __u8 macs[12];   // destination and source, zero until learned
};
struct host {
    __be32 address;
    __u8 mac[6];
    __u8 unused[2];
};
struct ip {
    __u8 version, tos;
    __be16 length, id, fragment;
    __u8 ttl, protocol;
    __be16 checksum;
    __be32 source, destination;
    __be16 source_port, destination_port; // of TCP and UDP, where there are no options
};
struct outer {
    __u8 destination_mac[6], source_mac[6];
    __be16 type;
    struct ip ip;
} __attribute__((packed)); // 14 bytes in front would else become 16

#define MAP(name, kind, keys, values, entries) \
    struct { __uint(type, kind); __type(key, keys); __type(value, values); __uint(max_entries, entries); } name SEC(".maps")

MAP(to_host, BPF_MAP_TYPE_LRU_HASH, __be32, __be32, L1_ENTRIES);
MAP(to_route, BPF_MAP_TYPE_LRU_HASH, __be32, struct route, L2_ENTRIES);
MAP(containers, BPF_MAP_TYPE_HASH, __be32, struct container, INGRESS_ENTRIES);
MAP(filter, BPF_MAP_TYPE_LRU_HASH, struct flow, __u64, FILTER_ENTRIES);
MAP(hosts, BPF_MAP_TYPE_HASH, __u32, struct host, 8);
MAP(paused, BPF_MAP_TYPE_ARRAY, __u32, __u32, 1);
MAP(counters, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u64, 6);

enum { EGRESS_HIT, EGRESS_MISS, INGRESS_HIT, INGRESS_MISS, EGRESS_LEARNED, INGRESS_LEARNED };

static __always_inline void count(__u32 which) {
    __u64 *value = bpf_map_lookup_elem(&counters, &which);
    if (value) *value += 1;
}

static __always_inline int read_ip(struct __sk_buff *skb, __u32 offset, struct ip *ip) {
    if (bpf_skb_load_bytes(skb, offset, ip, sizeof(*ip))) return 0;
    if (ip->version != 0x45 || ip->fragment & bpf_htons(0x3fff)) return 0; // options, or a piece without ports
    return ip->protocol == 6 || ip->protocol == 17;
}

static __always_inline void set_marks(struct __sk_buff *skb, __u32 offset, __u8 tos, __u8 marks) {
    __u8 wanted = (tos & ~MARKS) | marks;
    if (wanted == tos) return;
    bpf_l3_csum_replace(skb, offset + 10, bpf_htons(tos), bpf_htons(wanted), 2);
    bpf_skb_store_bytes(skb, offset + 1, &wanted, 1, 0);
}

static __always_inline struct flow flow_of(const struct ip *ip, int leaving) {
    struct flow flow = {.local = leaving ? ip->source : ip->destination,
                        .remote = leaving ? ip->destination : ip->source,
                        .local_port = leaving ? ip->source_port : ip->destination_port,
                        .remote_port = leaving ? ip->destination_port : ip->source_port,
                        .protocol = ip->protocol};
    return flow;
}

static __always_inline int passes(const struct flow *flow) {
    __u64 *bits = bpf_map_lookup_elem(&filter, flow);
    return bits && *bits == (EGRESS | INGRESS);
}

static __always_inline void allow(const struct flow *flow, __u64 bit) {
    __u64 *bits = bpf_map_lookup_elem(&filter, flow);
    if (!bits) {
        if (!bpf_map_update_elem(&filter, flow, &bit, BPF_NOEXIST)) return;
        bits = bpf_map_lookup_elem(&filter, flow);
    }
    if (bits) __sync_fetch_and_or(bits, bit);
}

static __always_inline int is_paused(void) {
    __u32 zero = 0, *value = bpf_map_lookup_elem(&paused, &zero);
    return value && *value;
}

static __always_inline int is_known(const __u8 *macs) {
    for (int i = 0; i < 12; i++)
        if (macs[i]) return 1;
    return 0;
}

static __always_inline int is_tunnel(const struct outer *outer) {
    return outer->type == bpf_htons(0x0800) && outer->ip.version == 0x45 && outer->ip.protocol == 17 &&
           outer->ip.destination_port == bpf_htons(TUNNEL_PORT);
}

static __always_inline void say(const char *what) {
#if PRINTS
    static const char format[] = "oncache: %s";
    bpf_trace_printk(format, sizeof(format), what);
#endif
}

SEC("tc")
int egress(struct __sk_buff *skb) { // where a container's packets enter the host
    struct ip ip;
    if (skb->protocol != bpf_htons(0x0800) || !read_ip(skb, 14, &ip)) return TC_ACT_OK;
    struct flow flow = flow_of(&ip, 1);
    __u32 hash = bpf_get_hash_recalc(skb); // of the inner packet: before it is changed
    __be32 *host = bpf_map_lookup_elem(&to_host, &ip.destination);
    struct route *route = host ? bpf_map_lookup_elem(&to_route, host) : 0;
    if (!route || !passes(&flow)) {
        count(EGRESS_MISS);
        say("egress miss");
        set_marks(skb, 14, ip.tos, MISS);
        return TC_ACT_OK;
    }
#if REVERSE_CHECK
    // The way back must be on the fast path too, or the overlay's connection tracking would see one direction only.
    struct container *back = bpf_map_lookup_elem(&containers, &ip.source);
    if (!back || !is_known(back->macs)) {
        count(EGRESS_MISS);
        say("egress reverse check");
        set_marks(skb, 14, ip.tos, 0);
        return TC_ACT_OK;
    }
#endif
    __u8 header[HEADER_BYTES];
    __builtin_memcpy(header, route->header, HEADER_BYTES);
    __u32 interface = route->interface;
    if (bpf_skb_adjust_room(skb, OUTER_BYTES, BPF_ADJ_ROOM_MAC,
                            BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 | BPF_F_ADJ_ROOM_ENCAP_L4_UDP |
                                BPF_F_ADJ_ROOM_ENCAP_L2(14) | BPF_F_ADJ_ROOM_ENCAP_L2_ETH))
        return TC_ACT_OK;
    __u16 length = skb->len - 14;
    struct ip *out = (struct ip *)(header + 14);
    out->length = bpf_htons(length);
    __u32 sum = (__u16)~out->checksum + (__u32)out->length; // the stored sum is that of a length of zero
    out->checksum = ~((sum & 0xffff) + (sum >> 16));
    out->source_port = CONSTANT_PORT ? bpf_htons(CONSTANT_PORT) : bpf_htons(49152 + (hash >> 18));
    *(__be16 *)(header + 38) = bpf_htons(length - 20);
    bpf_skb_store_bytes(skb, 0, header, HEADER_BYTES, BPF_F_INVALIDATE_HASH);
    count(EGRESS_HIT);
    return bpf_redirect(interface, 0);
}

SEC("tc")
int egress_init(struct __sk_buff *skb) { // where packets leave by the network card: fast ones pass here too
    struct outer outer;
    struct ip ip;
    struct route route = {};
    if (bpf_skb_load_bytes(skb, 0, &outer, sizeof(outer)) || !is_tunnel(&outer)) return TC_ACT_OK;
    if (!read_ip(skb, HEADER_BYTES, &ip) || (ip.tos & MARKS) != MARKS) return TC_ACT_OK;
    set_marks(skb, HEADER_BYTES, ip.tos, 0);
    if (is_paused() || bpf_skb_load_bytes(skb, 0, route.header, HEADER_BYTES)) return TC_ACT_OK;
    struct flow flow = flow_of(&ip, 1);
    struct ip *out = (struct ip *)(route.header + 14);
    out->length = out->id = out->checksum = 0;
    __s64 sum = bpf_csum_diff(0, 0, (__be32 *)out, 20, 0);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    out->checksum = ~sum;
    *(__be16 *)(route.header + 40) = 0; // UDP's checksum: none
    route.interface = skb->ifindex;
    bpf_map_update_elem(&to_route, &outer.ip.destination, &route, BPF_ANY);
    bpf_map_update_elem(&to_host, &ip.destination, &outer.ip.destination, BPF_ANY);
    allow(&flow, EGRESS);
    count(EGRESS_LEARNED);
    say("egress learned");
    return TC_ACT_OK;
}

SEC("tc")
int ingress(struct __sk_buff *skb) { // where packets arrive from the network card
    struct outer outer;
    struct ip ip;
    __u32 card = skb->ifindex;
    if (bpf_skb_load_bytes(skb, 0, &outer, sizeof(outer)) || !is_tunnel(&outer)) return TC_ACT_OK;
    struct host *host = bpf_map_lookup_elem(&hosts, &card);
    if (!host || host->address != outer.ip.destination) return TC_ACT_OK;
    for (int i = 0; i < 6; i++)
        if (host->mac[i] != outer.destination_mac[i]) return TC_ACT_OK;
    if (!read_ip(skb, HEADER_BYTES, &ip)) return TC_ACT_OK;
    struct flow flow = flow_of(&ip, 0);
    struct container *to = bpf_map_lookup_elem(&containers, &ip.destination);
    if (!to || !is_known(to->macs) || !passes(&flow)) {
        count(INGRESS_MISS);
        say("ingress miss");
        set_marks(skb, HEADER_BYTES, ip.tos, MISS);
        return TC_ACT_OK;
    }
#if REVERSE_CHECK
    __be32 *far = bpf_map_lookup_elem(&to_host, &ip.source);
    if (!far || (ROUTE_CHECK && !bpf_map_lookup_elem(&to_route, far))) {
        count(INGRESS_MISS);
        say("ingress reverse check");
        set_marks(skb, HEADER_BYTES, ip.tos, 0);
        return TC_ACT_OK;
    }
#endif
    struct container found = *to;
    if (bpf_skb_adjust_room(skb, -OUTER_BYTES, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO)) return TC_ACT_SHOT;
    bpf_skb_store_bytes(skb, 0, found.macs, 12, 0);
    count(INGRESS_HIT);
    return bpf_redirect_peer(found.interface, 0);
}

SEC("tc")
int ingress_init(struct __sk_buff *skb) { // where packets enter the container: fast ones pass here too
    struct ip ip;
    __u8 macs[12];
    if (skb->protocol != bpf_htons(0x0800) || !read_ip(skb, 14, &ip) || !(ip.tos & MARKS)) return TC_ACT_OK;
    set_marks(skb, 14, ip.tos, 0); // an application sees no mark
    if ((ip.tos & MARKS) != MARKS || is_paused() || bpf_skb_load_bytes(skb, 0, macs, 12)) return TC_ACT_OK;
    struct container *own = bpf_map_lookup_elem(&containers, &ip.destination);
    if (!own) return TC_ACT_OK; // the daemon does not know this container, or removed it
    __builtin_memcpy(own->macs, macs, 12);
    struct flow flow = flow_of(&ip, 0);
    allow(&flow, INGRESS);
    count(INGRESS_LEARNED);
    say("ingress learned");
    return TC_ACT_OK;
}

char licence[] SEC("license") = "Dual MIT/GPL";
