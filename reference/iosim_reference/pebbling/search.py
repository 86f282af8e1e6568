"""The least traffic of a graph, exactly: the cheapest normal pebbling."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from iosim_reference.pebbling.game import Game
from iosim_reference.pebbling.graphs import Graph
from iosim_reference.pebbling.rules import Move
from iosim_reference.pebbling.states import States, distinct, joined, keys
def beam(game, width):
    states=game.start(); best=10000; layers=[states]
    while len(states):
        states=game.after(states,best)
        states=distinct(states)
        done=game.finished(states)
        if done.any(): best=min(best,int(states.spent[done].min()))
        states=states.at(~done)
        if len(states)>width:
            f=states.spent+game.floor(states)
            states=states.at(np.argsort(f,kind='stable')[:width])
    return best
def search(game,best,limit,verbose=False):
    import time
    s=game.start(); F=int(game.floor(s)[0]); buckets={F:[s]}; seen=keys(s)[:0]
    n=0
    while F<best:
        wave=distinct(joined(buckets.pop(F))) if F in buckets else s.at(slice(0))
        t=time.time();c=0
        while len(wave):
            k=keys(wave)
            if len(seen):
                i=np.searchsorted(seen,k);i[i==len(seen)]=0
                ok=seen[i]!=k
                wave=wave.at(ok);k=k[ok]
            if not len(wave):break
            seen=np.sort(np.concatenate([seen,k]))
            c+=len(wave)
            nxt=[wave.at(slice(0))]
            for a in range(0,len(wave),20000):
                ch=distinct(game.after(wave.at(slice(a,a+20000)),best))
                done=game.finished(ch)
                if done.any(): best=min(best,int(ch.spent[done].min()))
                if best==F: return best,len(seen)
                f=ch.spent+game.floor(ch)
                for q in np.unique(f):
                    if q<best: (nxt if q==F else buckets.setdefault(int(q),[])).append(ch.at(f==q))
            wave=distinct(joined(nxt))
            if len(seen)>limit: return 'limit',F,len(seen)
        if verbose: print(F,best,c,round(time.time()-t,2))
        F+=1
    return best,len(seen)
def solve(graph,M,rc,width=100,verbose=False,limit=10**7):
    import time
    t=time.time();b=beam(Game(graph,M,False),width);t1=time.time()-t
    r=search(Game(graph,M,rc),b,limit,verbose)
    return b,r,round(t1,2),round(time.time()-t,2)
