package audit

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/server/auth"
)

// Record is what becomes known of a request while it is served. A nil Record writes nothing.
type Record struct {
	log  *Log
	rule *Rule

	mu    sync.Mutex // guards event: admission plugins may annotate from other goroutines; it stays when the record is used again
	event event
	at    auth.Attributes
	begun bool  // ResponseStarted has been written
	early bool  // RequestReceived is held, and to be written; guarded by mu
	slot  *slot // where it is held; guarded by mu
	again bool  // the record may be used for another request after this one

	annotations [2]annotation // room for those of authorization
}

// IDHeader names a request across servers. Answers have it too.
const IDHeader = "Audit-Id"

// LongestBody bounds what is kept of the body of a request or an answer. No request and no single object comes near it,
// however it is encoded: only very long lists are left out.
const LongestBody = 16 << 20

// truncated is the annotation of an event that lacks a body.
const truncated = "audit.k8s.io/truncated"

// ID names a request, as its client does if it does.
func ID(r *http.Request) string {
	if id := first(r.Header, IDHeader); id != "" {
		return id
	}
	return newID()
}

// Body takes a copy of what is sent, up to LongestBody.
type Body struct {
	b    []byte
	more bool
}

// Write implements io.Writer.
func (b *Body) Write(p []byte) (int, error) {
	if b.more = b.more || len(b.b)+len(p) > LongestBody; !b.more {
		b.b = append(b.b, p...)
	}
	return len(p), nil
}

// Bytes are what was sent, and whether that is all of it.
func (b *Body) Bytes() (all []byte, whole bool) { return b.b, !b.more }

// Begin writes that a request has come, if the policy wants that. An error says that the request must not go on.
func (l *Log) Begin(r *http.Request, id string, at auth.Attributes, received time.Time) (*Record, error) {
	if l == nil {
		return nil, nil
	}
	rec := l.record(r, id, at, received)
	if rec == nil {
		return nil, nil
	}
	if rec.omits(RequestReceived) {
		return rec, nil
	}
	if rec.again {
		l.share(&rec.event)
		if l.held.hold(rec) {
			return rec, nil
		}
	}
	return rec, rec.write(RequestReceived, received)
}

// Refuse writes that a client could not be authenticated.
func (l *Log) Refuse(r *http.Request, id string, at auth.Attributes, received time.Time, message string) {
	rec := l.record(r, id, at, received)
	if rec == nil {
		return
	}
	rec.event.failure = &metav1.Status{Status: metav1.StatusFailure, Message: message, Code: http.StatusUnauthorized}
	_ = rec.write(ResponseStarted, time.Now()) // counted
}

// record finds the rule for a request. There is no record if nothing is to be written.
func (l *Log) record(r *http.Request, id string, at auth.Attributes, received time.Time) *Record {
	rule := l.policy.find(&at)
	l.count(rule)
	if rule == nil || rule.level == None {
		return nil
	}
	rec, _ := l.records.Get().(*Record)
	if rec == nil {
		rec = &Record{}
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.log, rec.rule, rec.at = l, rule, at
	rec.again = rec.mayHold()
	e := &rec.event
	e.level, e.at, e.received, e.id, e.uri, e.agent, e.sources = rule.level, &rec.at, received, id, uri(r), first(r.Header, "User-Agent"), sources(r)
	e.annotations = rec.annotations[:0]
	if len(rec.event.agent) > longestAgent {
		rec.event.agent = rec.event.agent[:longestAgent] + "...TRUNCATED"
	}
	return rec
}

const longestAgent = 1024

// uri is what was asked for, as it was sent.
func uri(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		return r.RequestURI
	}
	return r.URL.RequestURI()
}

// sources are the addresses that a request came by, the client's first.
func sources(r *http.Request) (all []string) {
	if forwarded := first(r.Header, "X-Forwarded-For"); forwarded != "" {
		for part := range strings.SplitSeq(forwarded, ",") {
			all = addSource(all, part)
		}
	}
	if real := first(r.Header, "X-Real-Ip"); real != "" && len(all) == 0 {
		all = addSource(all, real)
	}
	if host, ok := plainHost(r.RemoteAddr); ok && len(all) == 0 {
		return []string{host}
	}
	if a, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return addAddress(all, a.Addr())
	}
	return addSource(all, r.RemoteAddr)
}

// plainHost is the IPv4 address of what net calls "address:port". It is told from others without being read.
func plainHost(remote string) (host string, ok bool) {
	colon := -1
	for i := range len(remote) {
		switch c := remote[i]; {
		case c == ':' && colon < 0:
			colon = i
		case c != '.' && (c < '0' || c > '9'):
			return "", false
		case c == '.' && colon >= 0:
			return "", false
		}
	}
	return remote[:max(colon, 0)], colon > 0
}

// first is the first value of a header whose name is canonical.
func first(h http.Header, name string) string {
	if all := h[name]; len(all) > 0 {
		return all[0]
	}
	return ""
}

func addSource(all []string, text string) []string {
	if a, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil {
		return addAddress(all, a)
	}
	return all
}

func addAddress(all []string, a netip.Addr) []string {
	if a.Zone() != "" {
		return all
	}
	if s := a.Unmap().String(); len(all) == 0 || all[len(all)-1] != s {
		all = append(all, s)
	}
	return all
}

// Annotate adds to the events that follow. A key that is there already stays.
func (r *Record) Annotate(key, value string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event.annotate(key, value)
}

// Impersonate says as whom the request goes on, and under which constraint, if there is one.
func (r *Record) Impersonate(u auth.User, constraint string) {
	if r != nil {
		r.event.impersonated, r.event.constraint = &u, constraint
	}
}

// Object says which object a body is about, where the path does not.
func (r *Record) Object(name, namespace, uid, version string) {
	if r == nil {
		return
	}
	if r.at.Name == "" {
		r.at.Name = name
	}
	if r.at.Namespace == "" {
		r.at.Namespace = namespace
	}
	r.event.found, r.event.uid, r.event.version = true, uid, version
}

// WantsRequest and WantsResponse tell whether bodies are written.
func (r *Record) WantsRequest() bool { return r != nil && r.event.level >= Request }

// WantsResponse is WantsRequest for the answer.
func (r *Record) WantsResponse() bool { return r != nil && r.event.level >= RequestResponse }

// Request notes the object of the request, or what can be made JSON of it.
func (r *Record) Request(o any) {
	if r.WantsRequest() {
		r.event.request = r.body(o)
	}
}

// Response notes the object of the answer.
func (r *Record) Response(o any) {
	if r.WantsResponse() {
		r.event.response = r.body(o)
	}
}

// Truncated says that a body is left out because it is too long.
func (r *Record) Truncated() { r.Annotate(truncated, "true") }

// body is an object as JSON, in one line. What is no JSON is left out.
func (r *Record) body(o any) []byte {
	text, given := o.([]byte)
	if !given {
		var err error
		if text, err = json.Marshal(o); err != nil {
			return nil
		}
	}
	if given || r.rule.omitManagedFields {
		tree, ok := parse(text)
		if !ok {
			return nil
		}
		if r.rule.omitManagedFields {
			withoutManagedFields(tree)
		}
		text, _ = json.Marshal(tree)
	}
	if len(text) > LongestBody {
		r.Truncated()
		return nil
	}
	return text
}

// parse reads JSON, or YAML: a client chooses how it writes, and must not choose by that what is written down.
func parse(text []byte) (tree any, ok bool) {
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	if numbers.Decode(&tree) == nil && numbers.Decode(new(any)) == io.EOF {
		return tree, true
	}
	return tree, yaml.Unmarshal(text, &tree) == nil
}

func withoutManagedFields(tree any) {
	o, ok := tree.(map[string]any)
	if !ok {
		return
	}
	if meta, ok := o["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
	}
	items, _ := o["items"].([]any)
	for _, item := range items {
		withoutManagedFields(item)
	}
}

// Started says that an answer that may take long has begun.
func (r *Record) Started(code int) {
	if r == nil || r.begun {
		return
	}
	r.begun = true
	r.event.code = int32(code)
	_ = r.write(ResponseStarted, time.Now()) // counted; the answer is on its way
}

// Complete says that the answer has been sent. Failure is the error that it told, or nil. The record must not be used
// any more.
func (r *Record) Complete(code int, failure *metav1.Status) {
	if r == nil {
		return
	}
	switch {
	case failure != nil:
		r.event.failure = failure
	case code == 0:
		r.event.failure = &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusOK, Message: "Connection closed early"}
	default:
		r.event.code = int32(code)
	}
	_ = r.write(ResponseComplete, time.Now())
	r.recycle()
}

// recycle lets another request have the record, if nobody else can have kept it: requests that only read one object
// pass no admission.
func (r *Record) recycle() {
	if !r.again {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.early { // the policy wants the beginning, but not the end
		return
	}
	r.rule, r.event, r.at, r.begun, r.annotations = nil, event{}, auth.Attributes{}, false, [len(r.annotations)]annotation{}
	r.log.records.Put(r)
}

// Panicked says that the request caused a panic.
func (r *Record) Panicked() {
	if r == nil {
		return
	}
	r.event.failure = &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
		Message: "APIServer panic'd: see the log"}
	_ = r.write(Panic, time.Now())
}

// write hands an event on, unless its stage is left out.
func (r *Record) write(s Stage, now time.Time) error {
	if r.omits(s) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event.stage, r.event.happened = s, now
	if !r.early {
		return r.log.emit(nil, &r.event)
	}
	r.free()
	begin := r.beginning()
	return r.log.emit(&begin, &r.event)
}

func (r *Record) omits(s Stage) bool { return r.rule.omitted&(1<<s) != 0 }
