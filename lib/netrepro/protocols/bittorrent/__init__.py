"""BitTorrent: the peer wire protocol of BEP 3 without input or output, and chokers, which divide the upload."""
