"""The rules of Kubernetes' kube-proxy (mode iptables) on a host that offers a few services, in our own words.

Chains and their order are those of its proxier. A packet of an established connection passes a few rules of the table
filter; the table nat, which has the services, sees only the first packet of a connection.
"""

SERVICES = (("tcp", 443), ("udp", 53), ("tcp", 53), ("tcp", 9153))  # a fresh cluster's: its API, names, their metrics
_NEW = "-m conntrack --ctstate NEW"
_MARKED = "-m mark --mark 0x4000/0x4000"


def filter_rules() -> list[str]:
    """Return the lines of the table filter, for iptables-restore."""
    names = ("SERVICES", "EXTERNAL-SERVICES", "NODEPORTS", "FORWARD", "FIREWALL", "PROXY-FIREWALL")
    return [
        *(f":KUBE-{name} - [0:0]" for name in names),
        f"-A INPUT {_NEW} -j KUBE-PROXY-FIREWALL",
        "-A INPUT -j KUBE-NODEPORTS",
        f"-A INPUT {_NEW} -j KUBE-EXTERNAL-SERVICES",
        "-A INPUT -j KUBE-FIREWALL",
        f"-A FORWARD {_NEW} -j KUBE-PROXY-FIREWALL",
        "-A FORWARD -j KUBE-FORWARD",
        f"-A FORWARD {_NEW} -j KUBE-SERVICES",
        f"-A FORWARD {_NEW} -j KUBE-EXTERNAL-SERVICES",
        f"-A OUTPUT {_NEW} -j KUBE-PROXY-FIREWALL",
        f"-A OUTPUT {_NEW} -j KUBE-SERVICES",
        "-A OUTPUT -j KUBE-FIREWALL",
        "-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
        "-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP",
        f"-A KUBE-FORWARD {_MARKED} -j ACCEPT",
        "-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
    ]


def nat_rules() -> list[str]:
    """Return the lines of the table nat, for iptables-restore: each service leads to one container."""
    services = []
    for number, (protocol, port) in enumerate(SERVICES):
        service, end, container = f"KUBE-SVC-{number}", f"KUBE-SEP-{number}", f"10.244.0.{number + 2}"
        services += [
            f":{service} - [0:0]",
            f":{end} - [0:0]",
            f"-A KUBE-SERVICES -d 10.96.0.{number + 1}/32 -p {protocol} --dport {port} -j {service}",
            f"-A {service} -j {end}",
            f"-A {end} -s {container}/32 -j KUBE-MARK-MASQ",
            f"-A {end} -p {protocol} -j DNAT --to-destination {container}:{port}",
        ]
    return [
        *(f":KUBE-{name} - [0:0]" for name in ("SERVICES", "NODEPORTS", "POSTROUTING", "MARK-MASQ")),
        "-A PREROUTING -j KUBE-SERVICES",
        "-A OUTPUT -j KUBE-SERVICES",
        "-A POSTROUTING -j KUBE-POSTROUTING",
        *services,
        "-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS",
        "-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN",
        "-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000",
        "-A KUBE-POSTROUTING -j MASQUERADE --random-fully",
        "-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000",
    ]
