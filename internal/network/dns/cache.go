package dns

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"

	wire "github.com/miekg/dns"
)

// The longest times for which these are kept: an answer, a negative answer, and an expired answer that is used when no
// upstream server can be reached.
const (
	longestAnswer   = time.Hour
	longestNegative = 30 * time.Minute
	longestStale    = time.Hour
)

// staleTTL is the TTL of a stale answer.
const staleTTL = 30

// cache keeps answers of upstream servers. When a shard is full, expired entries are evicted, or any entries.
type cache struct {
	now         func() time.Time
	seed        maphash.Seed
	shards      [16]shard
	maxPerShard int // entries of a shard
}

type shard struct {
	mu      sync.RWMutex
	entries map[cacheKey]cachedAnswer // guarded by mu
}

// cacheKey is everything in a request on which the answer depends.
type cacheKey struct {
	name             string
	kind             uint16
	dnssec, checking bool
}

// cachedAnswer is an answer. Its message is not modified any more.
type cachedAnswer struct {
	message *wire.Msg
	since   time.Time
	until   time.Time
}

func newCache(entries int, now func() time.Time) *cache {
	c := &cache{now: now, seed: maphash.MakeSeed()}
	c.maxPerShard = max(1, entries/len(c.shards))
	for i := range c.shards {
		c.shards[i].entries = map[cacheKey]cachedAnswer{}
	}
	return c
}

func cacheKeyOf(request *wire.Msg) cacheKey {
	opt := request.IsEdns0()
	return cacheKey{strings.ToLower(request.Question[0].Name), request.Question[0].Qtype, opt != nil && opt.Do(), request.CheckingDisabled}
}

// get returns an answer with its remaining TTL. If stale, an expired answer is returned as well.
func (c *cache) get(key cacheKey, stale bool) *wire.Msg {
	s := c.shard(key)
	s.mu.RLock()
	k, ok := s.entries[key]
	s.mu.RUnlock()
	now := c.now()
	switch {
	case !ok:
		return nil
	case now.Before(k.until):
		return withAge(k.message, uint32(now.Sub(k.since)/time.Second))
	case stale && now.Before(k.until.Add(longestStale)):
		old := k.message.Copy()
		for _, r := range records(old) {
			r.Header().Ttl = staleTTL
		}
		return old
	}
	return nil
}

// put stores an answer, if it may be cached.
func (c *cache) put(key cacheKey, message *wire.Msg) {
	life := lifetime(message)
	if life <= 0 {
		return
	}
	now := c.now()
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.entries[key]; !known && len(s.entries) >= c.maxPerShard {
		s.evictLocked(now)
	}
	s.entries[key] = cachedAnswer{message, now, now.Add(life)}
}

// evictionSamples is how many entries are checked to find an expired one.
const evictionSamples = 16

func (s *shard) evictLocked(now time.Time) {
	var victim cacheKey
	n := 0
	for key, k := range s.entries { // in random order
		victim = key
		if n++; n == evictionSamples || now.After(k.until) {
			break
		}
	}
	delete(s.entries, victim)
}

func (c *cache) shard(key cacheKey) *shard {
	return &c.shards[maphash.String(c.seed, key.name)%uint64(len(c.shards))]
}

// lifetime is how long a message may be cached: the smallest TTL of its records, and for a negative answer that of the
// SOA.
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

// withAge returns a copy of a message with each TTL reduced by so many seconds.
func withAge(m *wire.Msg, seconds uint32) *wire.Msg {
	out := m.Copy()
	for _, r := range records(out) {
		h := r.Header()
		h.Ttl -= min(h.Ttl, seconds)
	}
	return out
}

// records returns all records of a message but OPT, whose TTL field has another meaning.
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
