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

// answer answers a request that needs no upstream server, and otherwise returns nil.
func (s *Server) answer(request *wire.Msg) *wire.Msg {
	if reply := refusal(request); reply != nil {
		return reply
	}
	q := request.Question[0]
	name := strings.ToLower(q.Name)
	switch {
	case s.zone.has(name):
		return s.inZone(request, name)
	case s.probes.returned(name):
		return plain(request, wire.RcodeRefused)
	case strings.HasSuffix(name, ".arpa."):
		if f := s.zone.reverse(name, q.Name, q.Qtype); f.exists {
			return s.reply(request, f)
		}
	}
	if cached := s.forward.cached(request); cached != nil {
		return cached
	}
	return nil
}

// refusal returns the error reply to a request that is not an ordinary question, or nil.
func refusal(request *wire.Msg) *wire.Msg {
	opt := request.IsEdns0()
	switch {
	case request.Opcode != wire.OpcodeQuery:
		return plain(request, wire.RcodeNotImplemented)
	case len(request.Question) != 1:
		return plain(request, wire.RcodeFormatError)
	case opt != nil && opt.Version() != 0:
		return plain(request, wire.RcodeBadVers)
	case request.Question[0].Qclass != wire.ClassINET:
		return plain(request, wire.RcodeRefused)
	}
	switch request.Question[0].Qtype {
	case wire.TypeAXFR, wire.TypeIXFR:
		return plain(request, wire.RcodeRefused)
	}
	return nil
}

// inZone answers a name of the cluster. It returns nil if a CNAME points to a name outside the cluster.
func (s *Server) inZone(request *wire.Msg, name string) *wire.Msg {
	if !s.zone.ready() {
		return plain(request, wire.RcodeServerFailure)
	}
	q := request.Question[0]
	f := s.zone.find(name, q.Name, q.Qtype)
	for range maxAliases {
		if f.alias == "" || q.Qtype == wire.TypeCNAME || q.Qtype == wire.TypeANY {
			return s.reply(request, f)
		}
		if !s.zone.has(f.alias) {
			return nil
		}
		next := s.zone.find(f.alias, f.alias, q.Qtype)
		f.alias, f.records, f.extra = next.alias, append(f.records, next.records...), next.extra
	}
	return s.reply(request, f)
}

// ask asks upstream servers for what answer could not answer.
func (s *Server) ask(ctx context.Context, request *wire.Msg) *wire.Msg {
	q := request.Question[0]
	name := strings.ToLower(q.Name)
	if !s.zone.has(name) {
		return s.forward.resolve(ctx, request)
	}
	reply := plain(request, wire.RcodeSuccess)
	reply.Authoritative = true
	for range maxAliases {
		f := s.zone.find(name, name, q.Qtype)
		if len(reply.Answer) == 0 {
			f = s.zone.find(name, q.Name, q.Qtype)
		}
		reply.Answer = append(reply.Answer, f.records...)
		if f.alias == "" {
			return reply
		}
		if name = f.alias; !s.zone.has(name) {
			break
		}
	}
	if !request.RecursionDesired {
		return reply
	}
	onward := request.Copy()
	onward.Question[0].Name = name
	beyond := s.forward.resolve(ctx, onward)
	reply.Rcode = beyond.Rcode
	reply.Answer = append(reply.Answer, beyond.Answer...)
	reply.Ns = beyond.Ns
	return reply
}

// plain returns a reply without records.
func plain(request *wire.Msg, code int) *wire.Msg {
	reply := new(wire.Msg).SetRcode(request, code)
	reply.RecursionAvailable = true
	if opt := request.IsEdns0(); opt != nil {
		reply.SetEdns0(largeSize, opt.Do())
		reply.IsEdns0().SetExtendedRcode(uint16(code))
	}
	return reply
}

// reply returns the reply with what the zone has found, or a negative one.
func (s *Server) reply(request *wire.Msg, f found) *wire.Msg {
	code := wire.RcodeSuccess
	if !f.exists {
		code = wire.RcodeNameError
	}
	reply := plain(request, code)
	reply.Authoritative = true
	reply.Answer = f.records
	reply.Extra = append(f.extra, reply.Extra...)
	if len(f.records) == 0 {
		reply.Ns = []wire.RR{s.zone.soa()}
		return reply
	}
	if f.alias == "" && request.Question[0].Qtype != wire.TypeCNAME && len(f.records) > 1 && f.records[0].Header().Rrtype != wire.TypeCNAME {
		shuffle(reply.Answer) // most clients use the first address
	}
	return reply
}

func shuffle(records []wire.RR) {
	rand.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
}

// fit truncates a reply to the size that the client accepts: over UDP the size in the request, over TCP any size.
func fit(reply, request *wire.Msg, datagram bool) {
	size := wire.MaxMsgSize
	if datagram {
		size = plainSize
		if opt := request.IsEdns0(); opt != nil {
			size = min(max(int(opt.UDPSize()), plainSize), largeSize)
		}
	}
	reply.Compress = true
	if reply.Len() > size {
		reply.Truncate(size)
	}
}
