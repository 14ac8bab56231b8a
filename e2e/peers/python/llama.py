"""Serves a model with llama.cpp's own HTTP server on loopback.

    llama.py MODEL

Prints the address when the model is loaded, and ends with its standard input.
"""

import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = 4096
params.n_parallel = 1
# Bounded and the same each time: so small a model may never come to an end.
params.n_predict = 200
params.sampling.temp = 0.0
params.warmup = False
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
