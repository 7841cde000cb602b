package dns

import (
	"context"
	"math/rand/v2"
	"strings"

	wire "github.com/miekg/dns"
)

// The sizes of datagrams: what every client accepts, and the largest that no network fragments.
const (
	plainSize = wire.MinMsgSize
	largeSize = 1232
)

// maxAliases is how many CNAMEs are followed for one question.
const maxAliases = 8

// answerer answers requests that need no upstream server, one after the other with the same memory.
type answerer struct {
	zone    *zone
	probes  *probes
	reply   reply
	records []record
}

func (s *Server) newAnswerer() *answerer {
	return &answerer{zone: s.zone, probes: &s.probes, reply: reply{ttl: s.ttl()}}
}

// answer returns the reply to a request, of at most limit bytes. It is valid until the next call. If an upstream server
// must be asked, there is no reply; or it has only CNAMEs, and the name to which they lead is returned too.
func (a *answerer) answer(q *query, limit int) (reply []byte, alias string) {
	if code, refused := q.refusal(); refused {
		return a.plain(q, code), ""
	}
	switch {
	case a.zone.has(q.name):
		return a.inZone(q, limit)
	case a.probes.returned(q.name):
		return a.plain(q, wire.RcodeRefused), ""
	case strings.HasSuffix(q.name, ".arpa."):
		if f := a.zone.reverse(q.name, q.kind, a.records[:0]); f.exists {
			return a.found(q, f, limit), ""
		}
	}
	if q.flags&flagRecursionDesired == 0 {
		return a.plain(q, wire.RcodeRefused), ""
	}
	return nil, ""
}

// inZone answers a name of the cluster.
func (a *answerer) inZone(q *query, limit int) (reply []byte, alias string) {
	if !a.zone.ready() {
		return a.plain(q, wire.RcodeServerFailure), ""
	}
	f := a.zone.find(q.name, q.kind, a.records[:0])
	for range maxAliases {
		if f.alias == "" || q.kind == wire.TypeCNAME || q.kind == wire.TypeANY {
			break
		}
		if !a.zone.has(f.alias) {
			if q.flags&flagRecursionDesired != 0 {
				alias = f.alias
			}
			break
		}
		next := a.zone.find(f.alias, q.kind, nil)
		f.alias, f.records, f.extra = next.alias, append(f.records, next.records...), next.extra
	}
	return a.found(q, f, limit), alias
}

// plain returns a reply without records.
func (a *answerer) plain(q *query, code int) []byte {
	a.reply.begin(q, plainSize)
	return a.reply.end(q, code, false)
}

// found returns the reply with what the zone has found, or a negative one.
func (a *answerer) found(q *query, f found, limit int) []byte {
	a.reply.begin(q, limit)
	code := wire.RcodeSuccess
	if !f.exists {
		code = wire.RcodeNameError
	}
	if len(f.records) == 0 {
		a.reply.add(authoritySection, a.zone.soa())
		return a.reply.end(q, code, true)
	}
	if len(f.records) > 1 && f.records[0].kind != wire.TypeCNAME {
		shuffle(f.records) // most clients use the first address
	}
	for _, r := range f.records {
		a.reply.add(answerSection, r)
	}
	for _, r := range f.extra {
		a.reply.add(additionalSection, r)
	}
	a.records = f.records
	return a.reply.end(q, code, true)
}

// onward is a request that upstream servers must answer.
type onward struct {
	request *wire.Msg
	partial *wire.Msg // the beginning of the reply, of CNAMEs, or nil
	alias   string    // the name to which they lead
}

// newOnward reads a request for upstream servers, and the beginning of its reply. It fails if the request is malformed.
func newOnward(request, partial []byte, alias string) (onward, bool) {
	o := onward{request: new(wire.Msg), alias: alias}
	if o.request.Unpack(request) != nil {
		return o, false
	}
	if alias != "" {
		o.partial = new(wire.Msg)
		if o.partial.Unpack(partial) != nil {
			return o, false
		}
	}
	return o, true
}

// ask asks upstream servers for what answer could not answer.
func (s *Server) ask(ctx context.Context, o onward) *wire.Msg {
	if o.partial == nil {
		return s.forward.resolve(ctx, o.request)
	}
	beyond := o.request.Copy()
	beyond.Question[0].Name = o.alias
	end := s.forward.resolve(ctx, beyond)
	o.partial.Rcode = end.Rcode
	o.partial.Answer = append(o.partial.Answer, end.Answer...)
	o.partial.Ns = end.Ns
	return o.partial
}

// plain returns a reply without records.
func plain(request *wire.Msg, code int) *wire.Msg {
	reply := new(wire.Msg).SetRcode(request, code)
	reply.RecursionAvailable = true
	if opt := request.IsEdns0(); opt != nil {
		reply.SetEdns0(largeSize, opt.Do())
	}
	return reply
}

func shuffle[T any](records []T) {
	rand.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
}

// fit truncates a reply to a size.
func fit(reply *wire.Msg, size int) {
	reply.Compress = true
	if reply.Len() > size {
		reply.Truncate(size)
	}
}
