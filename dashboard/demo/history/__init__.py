"""The demo's past: sixty days that a simulation makes up, a pure function of a seed and the present time.

Everything in it is recognisable: processes and clients are called `simulation`, people and reasons end in
`(simulated)`, and each page says until when the past is simulated.
"""
