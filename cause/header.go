package cause

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Header is the header that carries a cause.
const Header = "Millrace-Cause"

// longestHeader bounds what is sent and read, and longestDecision a text in it.
const (
	longestHeader   = 4 << 10
	longestDecision = 512
)

// ErrMalformed is returned for a text that is not a cause.
var ErrMalformed = errors.New("the cause cannot be read")

// String returns the cause as the header has it: words with an equals sign, separated by semicolons.
func (c Cause) String() string {
	var b strings.Builder
	word := func(name, value string) {
		if value != "" {
			if b.Len() > 0 {
				b.WriteByte(';')
			}
			b.WriteString(name + "=" + escape(value))
		}
	}
	word("loop", c.Loop)
	word("key", c.Key)
	for _, change := range c.Changes {
		word("change", change.String())
	}
	if c.Count != len(c.Changes) {
		word("count", strconv.Itoa(c.Count))
	}
	for _, how := range []struct {
		name string
		is   bool
	}{{"timer", c.Timer}, {"retry", c.Retry}, {"resync", c.Resync}} {
		if how.is {
			word("how", how.name)
		}
	}
	word("told", cut(c.Told, longestDecision))
	word("decision", cut(c.Decision, longestDecision))
	return b.String()
}

// String returns the change as RESOURCE/NAMESPACE/NAME@REVISION; without a namespace nothing stands between the slashes.
func (c Change) String() string {
	return c.Resource + "/" + c.Namespace + "/" + c.Name + "@" + strconv.FormatUint(c.Revision, 10)
}

// escape escapes what separates words, and what a header cannot carry.
func escape(text string) string {
	for i := 0; i < len(text); i++ {
		if plain(text[i]) {
			continue
		}
		var b strings.Builder
		b.WriteString(text[:i])
		for _, c := range []byte(text[i:]) {
			if plain(c) {
				b.WriteByte(c)
			} else {
				b.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(c)|0x100, 16)[1:]))
			}
		}
		return b.String()
	}
	return text
}

func plain(c byte) bool { return c >= ' ' && c < 0x7f && c != ';' && c != '%' }

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// Parse reads what String has written.
func Parse(text string) (Cause, error) {
	var c Cause
	if len(text) > longestHeader {
		return c, ErrMalformed
	}
	for word := range strings.SplitSeq(text, ";") {
		name, value, ok := strings.Cut(word, "=")
		value, err := url.PathUnescape(value)
		if !ok || err != nil || !c.set(name, value) {
			return Cause{}, ErrMalformed
		}
	}
	if c.Count < len(c.Changes) {
		c.Count = len(c.Changes)
	}
	return c, nil
}

// set sets what a word says. Words that a later version adds are passed over.
func (c *Cause) set(name, value string) bool {
	switch name {
	case "loop":
		c.Loop = value
	case "key":
		c.Key = value
	case "told":
		c.Told = cut(value, longestDecision)
	case "decision":
		c.Decision = cut(value, longestDecision)
	case "count":
		n, err := strconv.Atoi(value)
		c.Count = n
		return err == nil && n >= 0
	case "how":
		c.Timer, c.Retry, c.Resync = c.Timer || value == "timer", c.Retry || value == "retry", c.Resync || value == "resync"
	case "change":
		change, ok := parseChange(value)
		if ok && len(c.Changes) < Most {
			c.Changes = append(c.Changes, change)
		}
		return ok
	}
	return true
}

func parseChange(text string) (c Change, ok bool) {
	resource, rest, ok1 := strings.Cut(text, "/")
	namespace, rest, ok2 := strings.Cut(rest, "/")
	at := strings.LastIndexByte(rest, '@')
	if !ok1 || !ok2 || at < 0 {
		return c, false
	}
	revision, err := strconv.ParseUint(rest[at+1:], 10, 64)
	return Change{resource, namespace, rest[:at], revision}, err == nil
}

// Transport returns a transport that sends the cause of each request that writes.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return t.next.RoundTrip(r)
	}
	c, ok := From(r.Context())
	if !ok || len(r.Header[Header]) > 0 {
		return t.next.RoundTrip(r)
	}
	text := c.String()
	if text == "" || len(text) > longestHeader {
		return t.next.RoundTrip(r)
	}
	with := *r
	with.Header = r.Header.Clone()
	with.Header[Header] = []string{text}
	return t.next.RoundTrip(&with)
}

// WrappedRoundTripper returns the transport below, so that client-go finds it.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
