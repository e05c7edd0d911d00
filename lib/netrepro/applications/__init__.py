"""Floor 2: programs that run on the hosts of a network; `<name>/guest.py` inside, `<name>/run.py` outside.

A run.py builds the network, starts its guest.py on hosts (processes.py, with plans and answers as JSON), and returns
what they have measured. datagrams.py drives the machines of `netrepro.protocols` in guests. In virtual time: bgp
(BIRD), etcd (no guest of ours; etcd/real_time.py has it on the loopback), labelled_traffic (several guests),
misbehaving_receiver, mptcp, raft, replicas, swarm, web. In real time: repnet. In both, and in the simulator:
bucket_sort.
"""
