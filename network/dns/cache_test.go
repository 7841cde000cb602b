package dns

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/miekg/dns"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/loop"
)

func record(t testing.TB, text string) wire.RR {
	t.Helper()
	r, err := wire.NewRR(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAnswersAgeAndOutliveTheirServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(100, time.Now)
		request := new(wire.Msg).SetQuestion("www.example.com.", wire.TypeA)
		key := cacheKeyOf(request)
		reply := new(wire.Msg).SetReply(request)
		reply.Answer = []wire.RR{record(t, "www.example.com. 60 IN A 192.0.2.1")}
		c.put(key, reply)
		time.Sleep(20 * time.Second)
		if got := c.get(key, false); got == nil || got.Answer[0].Header().Ttl != 40 {
			t.Errorf("after 20 s of 60: %v", got)
		}
		time.Sleep(time.Minute)
		if got := c.get(key, false); got != nil {
			t.Errorf("after 80 s of 60: %v", got)
		}
		if got := c.get(key, true); got == nil || got.Answer[0].Header().Ttl != staleTTL {
			t.Errorf("in need: %v", got)
		}
	})
}

func TestTheCacheIsBounded(t *testing.T) {
	c := newCache(160, time.Now)
	for i := range 5000 {
		request := new(wire.Msg).SetQuestion(fmt.Sprintf("n%d.example.com.", i), wire.TypeA)
		reply := new(wire.Msg).SetReply(request)
		reply.Answer = []wire.RR{record(t, request.Question[0].Name+" 60 IN A 192.0.2.1")}
		c.put(cacheKeyOf(request), reply)
	}
	n := 0
	for i := range c.shards {
		n += len(c.shards[i].entries)
	}
	if n > 160 {
		t.Errorf("%d entries where 160 may be", n)
	}
}

func TestNothingIsDeniedBeforeTheFirstList(t *testing.T) {
	server, err := New(Options{Clients: loop.ClientsFor(fake.NewClientset()), Listen: []string{"127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	reply := server.answer(new(wire.Msg).SetQuestion("web.default.svc.cluster.local.", wire.TypeA))
	if reply == nil || reply.Rcode != wire.RcodeServerFailure {
		t.Errorf("before the informers have filled: %v", reply)
	}
}
