from textwrap import fill

from iosim import Attention, BadInput, Machine, simulate
from iosim.core.errors import IosimError


def hoard(m, A):
    for i in m.tiles(8, 4):
        kept = m.load(A[i])
    m.load(A[:]) @ kept.T  # kept is used after its tile


def leave(m, A):
    for i in m.tiles(8, 4):
        break
    m.finish()


def compute(m, A):
    for i in m.tiles(8, 4):
        m.load(A[i]) + A


def twice(m, A):
    for i in m.tiles(8, 4):
        value = m.load(A[i]) * 2.0
        (value + value).rowsum()


def write(m, A):
    for i in m.tiles(8, 4):
        m.store(A[i], m.load(A[i]) * 2.0)


def forget(m, A):
    m.output("B", (8, 4))
    for i in m.tiles(8, 4):
        m.load(A[i])
    m.finish()


def nest(m, A):
    for i in m.tiles(8, 4):
        for j in m.tiles(i.size, 2):
            m.load(A[j])


def much(m, A):
    for i in m.tiles(8, 4):
        a = m.load(A[i])
        b = m.full(0.0, 4, 4, name="B_i")
        c = m.full(0.0, 4, 4, name="C_i")


for listing in (hoard, leave, compute, twice, write, forget, nest, much):
    m = Machine(sram=40, mode="trace")
    try:
        listing(m, m.input("A", (8, 4)))
    except IosimError as error:
        print(fill(f"{listing.__name__}: {error}", 96), end="\n\n")

try:
    simulate("flash", Attention(n=512, d=64), sram=100)
except BadInput as error:
    print(f"too small: {error}")
