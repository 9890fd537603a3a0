"""Sender links whose deliveries are kept until a namespace has accepted them."""
