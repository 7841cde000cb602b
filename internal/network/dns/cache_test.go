package dns

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/miekg/dns"
)

func TestAnswersAgeAndOutliveTheirServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(100, time.Now)
		request := new(wire.Msg).SetQuestion("www.example.com.", wire.TypeA)
		key := cacheKeyOf(request)
		reply := new(wire.Msg).SetReply(request)
		reply.Answer = []wire.RR{libraryText(t, "www.example.com. 60 IN A 192.0.2.1")}
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
		reply.Answer = []wire.RR{libraryText(t, request.Question[0].Name+" 60 IN A 192.0.2.1")}
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
