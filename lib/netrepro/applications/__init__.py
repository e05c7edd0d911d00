"""Floor 2: programs that run on the hosts of a network; `<name>/guest.py` runs inside, `<name>/run.py` outside.

A run.py builds the network, starts its guest.py on hosts (by processes.py, with plans and answers as JSON), and returns
the guests' measurements. datagrams.py drives the machines of `netrepro.protocols` in guests. These run in virtual time:
bgp (BIRD), etcd (without a guest.py; etcd/real_time.py runs it on the loopback), labelled_traffic (several guests),
misbehaving_receiver, mptcp, raft, replicas, swarm, web. repnet runs in real time. bucket_sort runs in both, and in the
simulator.
"""
