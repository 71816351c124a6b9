"""Proposals (KIPs) that change what transactions do, or who reads them."""
