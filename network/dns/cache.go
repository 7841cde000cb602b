package dns

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"

	wire "github.com/miekg/dns"
)

// The longest time that is kept: an answer, the fact that there is none, and an expired answer that is used when no server can be reached.
const (
	longestAnswer   = time.Hour
	longestNegative = 30 * time.Minute
	longestStale    = time.Hour
)

// staleTTL is what an old answer is said to be good for.
const staleTTL = 30

// cache keeps answers of upstream servers. When a shard is full, entries go that have expired, or any.
type cache struct {
	now    func() time.Time
	seed   maphash.Seed
	shards [16]shard
	room   int // entries of a shard
}

type shard struct {
	mu      sync.RWMutex
	entries map[asked]kept // guarded by mu
}

// asked tells apart what has different answers.
type asked struct {
	name             string
	kind             uint16
	dnssec, checking bool
}

// kept is an answer. Its message is not changed any more.
type kept struct {
	message *wire.Msg
	since   time.Time
	until   time.Time
}

func newCache(entries int, now func() time.Time) *cache {
	c := &cache{now: now, seed: maphash.MakeSeed()}
	c.room = max(1, entries/len(c.shards))
	for i := range c.shards {
		c.shards[i].entries = map[asked]kept{}
	}
	return c
}

func askedOf(request *wire.Msg) asked {
	opt := request.IsEdns0()
	return asked{strings.ToLower(request.Question[0].Name), request.Question[0].Qtype, opt != nil && opt.Do(), request.CheckingDisabled}
}

// get returns an answer with the time it is still good for. A stale one is past its time.
func (c *cache) get(key asked, stale bool) *wire.Msg {
	s := c.shard(key)
	s.mu.RLock()
	k, ok := s.entries[key]
	s.mu.RUnlock()
	now := c.now()
	switch {
	case !ok:
		return nil
	case now.Before(k.until):
		return aged(k.message, uint32(now.Sub(k.since)/time.Second))
	case stale && now.Before(k.until.Add(longestStale)):
		old := k.message.Copy()
		for _, r := range records(old) {
			r.Header().Ttl = staleTTL
		}
		return old
	}
	return nil
}

// put keeps an answer, if it may be kept.
func (c *cache) put(key asked, message *wire.Msg) {
	life := lifetime(message)
	if life <= 0 {
		return
	}
	now := c.now()
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.entries[key]; !known && len(s.entries) >= c.room {
		s.makeRoomLocked(now)
	}
	s.entries[key] = kept{message, now, now.Add(life)}
}

// looks is how many entries are looked at to find one that can go.
const looks = 16

func (s *shard) makeRoomLocked(now time.Time) {
	var victim asked
	n := 0
	for key, k := range s.entries { // in random order
		victim = key
		if n++; n == looks || now.After(k.until) {
			break
		}
	}
	delete(s.entries, victim)
}

func (c *cache) shard(key asked) *shard {
	return &c.shards[maphash.String(c.seed, key.name)%uint64(len(c.shards))]
}

// lifetime is how long a message may be kept: the least of its records' times, and for a negative one the SOA's.
func lifetime(m *wire.Msg) time.Duration {
	negative := m.Rcode == wire.RcodeNameError || m.Rcode == wire.RcodeSuccess && len(m.Answer) == 0
	switch {
	case m.Truncated || !negative && m.Rcode != wire.RcodeSuccess:
		return 0
	case negative:
		for _, r := range m.Ns {
			if soa, ok := r.(*wire.SOA); ok {
				return min(time.Duration(min(soa.Minttl, soa.Hdr.Ttl))*time.Second, longestNegative)
			}
		}
		return 0
	}
	life := longestAnswer
	for _, r := range records(m) {
		life = min(life, time.Duration(r.Header().Ttl)*time.Second)
	}
	return life
}

// aged is a copy of a message whose records are so many seconds older.
func aged(m *wire.Msg, seconds uint32) *wire.Msg {
	out := m.Copy()
	for _, r := range records(out) {
		h := r.Header()
		h.Ttl -= min(h.Ttl, seconds)
	}
	return out
}

// records are all of a message but OPT, whose header means something else.
func records(m *wire.Msg) []wire.RR {
	out := make([]wire.RR, 0, len(m.Answer)+len(m.Ns)+len(m.Extra))
	for _, section := range [][]wire.RR{m.Answer, m.Ns, m.Extra} {
		for _, r := range section {
			if r.Header().Rrtype != wire.TypeOPT {
				out = append(out, r)
			}
		}
	}
	return out
}
