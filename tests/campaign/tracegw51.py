import sys, time
from gateway import command
from gateway.server import Gateway
from tests.campaign.watched import _frames
from amqp10 import performatives as p
NAMES={c.CODE:n for n,c in vars(p).items() if hasattr(c,"CODE")}
serve=Gateway._serve
N=[0]
def say(*a): print("%.3f"%(time.time()%1000),*a,file=sys.stderr,flush=True)
def watched(self, connection):
    served=serve(self,connection); N[0]+=1; k=N[0]; a,b=bytearray(),bytearray()
    say(k,"NEW",type(served).__name__)
    receive,write,lost=served.receive,connection.write,served.lost
    def show(way,buf,data):
        for ch,f in _frames(buf,data):
            n=NAMES.get(f.code,f.code); extra=""
            if n in("Transfer","Attach","Detach","Flow"): extra=f"h={f.value('handle')}"
            if n=="Transfer": extra+=f" id={f.value('delivery_id')}"
            if n=="Attach": extra+=f" {f.value('name')}"
            if n=="Disposition": extra=f"{f.value('first')} {f.encoded('state')[:60]!r}"
            if n in("Close","Detach","End"):
                try: extra+=f" {p.reason(f.value('error'))}"
                except Exception: pass
            say(k,way,n,ch,extra)
    served.receive=lambda d:(show(">",a,d),receive(d))
    connection.write=lambda d:(show("<",b,d),write(d))
    served.lost=lambda:(say(k,"SOCKET LOST"),lost())
    return served
Gateway._serve=watched
leave_all=Gateway.primary_lost
if __name__=="__main__": sys.exit(command.main(sys.argv[1:]))
