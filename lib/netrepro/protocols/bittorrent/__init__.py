"""BitTorrent: the peer wire protocol of BEP 3 without input or output, and who is served with what share."""
