"""Agents that build in one world of blocks, and who builds what: python train.py --task build"""
