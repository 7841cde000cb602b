package audit

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/jsontext"
	"github.com/millrace/millrace/internal/server/auth"
)

// event is one of audit.k8s.io/v1. It is written by hand: a library would take most of the time of an audit.
type event struct {
	level              Level
	stage              Stage
	at                 *auth.Attributes
	id, uri, agent     string
	sources            []string
	impersonated       *auth.User
	constraint         string         // of the impersonation
	found              bool           // the object of the body is known, and may have changed what at says
	uid, version       string         // of that object
	code               int32          // of the answer
	failure            *metav1.Status // the answer, if it has more than a code
	request, response  []byte
	received, happened time.Time
	annotations        []annotation // by key
	// common is what all events of a request have in common, in a buffer of the Log.
	common *common
}

type annotation struct{ key, value string }

// annotate adds an annotation, unless its key is there already.
func (e *event) annotate(key, value string) {
	i, there := slices.BinarySearchFunc(e.annotations, key, func(a annotation, key string) int { return strings.Compare(a.key, key) })
	if !there {
		e.annotations = slices.Insert(e.annotations, i, annotation{key, value})
	}
}

// common is encoded when a request begins, and copied into its events.
type common struct {
	b []byte
	// impersonated is where the impersonated user belongs, object where the reference to the object begins, and
	// received the time of reception.
	impersonated, object, received int
}

func (c *common) encode(e *event, all *users) {
	b := field(c.b[:0], "requestURI", e.uri)
	b = field(b, "verb", e.at.Verb)
	b = append(b, `,"user":`...)
	b = all.append(b, &e.at.User)
	c.impersonated = len(b)
	if len(e.sources) > 0 {
		b = append(b, `,"sourceIPs":`...)
		b = list(b, e.sources)
	}
	b = optional(b, "userAgent", e.agent)
	c.object = len(b)
	b = e.object(b)
	c.received = len(b)
	b = append(b, `,"requestReceivedTimestamp":"`...)
	c.b = appendTime(b, e.received)
}

// newID makes a random UUID. It only needs to be unique, so no randomness of the system is used for it.
func newID() string {
	var random [16]byte
	binary.NativeEndian.PutUint64(random[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(random[8:], rand.Uint64())
	random[6], random[8] = random[6]&0x0f|0x40, random[8]&0x3f|0x80 // version 4
	var b [36]byte
	out := b[:0]
	for i, group := range [][]byte{random[:4], random[4:6], random[6:8], random[8:10], random[10:]} {
		if i > 0 {
			out = append(out, '-')
		}
		out = hex.AppendEncode(out, group)
	}
	return string(out)
}

// second is a second in words. Most times of events are in the one of the time before.
type second struct {
	unix int64
	text string
}

var lastSecond atomic.Pointer[second]

// appendTime adds a time with its microseconds.
func appendTime(b []byte, t time.Time) []byte {
	s := lastSecond.Load()
	if s == nil || s.unix != t.Unix() {
		s = &second{t.Unix(), t.UTC().Format("2006-01-02T15:04:05.")}
		lastSecond.Store(s)
	}
	b = append(b, s.text...)
	micro := t.Nanosecond() / 1000
	for scale := 100_000; scale > 0; scale /= 10 {
		b = append(b, byte('0'+micro/scale%10))
	}
	return append(b, 'Z')
}

// append adds the event as JSON.
func (e *event) append(b []byte) []byte {
	b = append(b, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"`...)
	b = append(b, e.level.String()...)
	b = append(b, `","auditID":`...)
	b = jsontext.Quote(b, e.id)
	b = append(b, `,"stage":"`...)
	b = append(b, stageNames[e.stage]...)
	b = append(b, '"')
	b = append(b, e.common.b[:e.common.impersonated]...)
	if e.impersonated != nil {
		b = append(b, `,"impersonatedUser":`...)
		b = user(b, e.impersonated)
		if e.constraint != "" {
			b = append(b, `,"authenticationMetadata":{"impersonationConstraint":`...)
			b = jsontext.Quote(b, e.constraint)
			b = append(b, '}')
		}
	}
	if e.found {
		b = append(b, e.common.b[e.common.impersonated:e.common.object]...)
		b = e.object(b)
	} else {
		b = append(b, e.common.b[e.common.impersonated:e.common.received]...)
	}
	if e.answered() {
		b = append(b, `,"responseStatus":`...)
		b = e.status(b)
	}
	b = raw(b, "requestObject", e.request)
	b = raw(b, "responseObject", e.response)
	b = append(b, e.common.b[e.common.received:]...)
	b = append(b, `","stageTimestamp":"`...)
	b = appendTime(b, e.happened)
	b = append(b, '"')
	if len(e.annotations) > 0 {
		b = append(b, `,"annotations":{`...)
		for i, a := range e.annotations {
			if i > 0 {
				b = append(b, ',')
			}
			b = jsontext.Quote(b, a.key)
			b = append(b, ':')
			b = jsontext.Quote(b, a.value)
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

// object adds what the request is for, if that is a resource.
func (e *event) object(b []byte) []byte {
	if !e.at.IsResource {
		return b
	}
	b = append(b, `,"objectRef":{`...)
	open := len(b)
	for _, f := range [...]struct{ key, value string }{
		{"resource", e.at.Resource}, {"namespace", e.at.Namespace}, {"name", e.at.Name}, {"uid", e.uid}, {"apiGroup", e.at.Group},
		{"apiVersion", e.at.Version}, {"resourceVersion", e.version}, {"subresource", e.at.Subresource},
	} {
		if f.value == "" {
			continue
		}
		if len(b) > open {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, f.key...)
		b = append(b, `":`...)
		b = jsontext.Quote(b, f.value)
	}
	return append(b, '}')
}

func user(b []byte, u *auth.User) []byte {
	b = append(b, '{')
	open := len(b)
	if u.Name != "" {
		b = append(b, `"username":`...)
		b = jsontext.Quote(b, u.Name)
	}
	comma := func() {
		if len(b) > open {
			b = append(b, ',')
		}
	}
	if u.UID != "" {
		comma()
		b = append(b, `"uid":`...)
		b = jsontext.Quote(b, u.UID)
	}
	if len(u.Groups) > 0 {
		comma()
		b = append(b, `"groups":`...)
		b = list(b, u.Groups)
	}
	if len(u.Extra) > 0 {
		comma()
		b = append(b, `"extra":{`...)
		for i, key := range sortedKeys(u.Extra) {
			if i > 0 {
				b = append(b, ',')
			}
			b = jsontext.Quote(b, key)
			b = append(b, ':')
			b = list(b, u.Extra[key])
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

// sortedKeys are usually one: the credential's.
func sortedKeys(m map[string][]string) []string {
	keys := make([]string, 0, 4)
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// answered reports whether the event has a status.
func (e *event) answered() bool { return e.code != 0 || e.failure != nil }

// status adds the status of the answer.
func (e *event) status(b []byte) []byte {
	if e.failure == nil {
		b = append(b, `{"metadata":{},"code":`...)
		b = strconv.AppendInt(b, int64(e.code), 10)
		return append(b, '}')
	}
	plain := *e.failure
	plain.TypeMeta, plain.ListMeta = metav1.TypeMeta{}, metav1.ListMeta{}
	encoded, err := json.Marshal(&plain)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, encoded...)
}

func field(b []byte, key, value string) []byte {
	b = append(b, ',', '"')
	b = append(b, key...)
	b = append(b, `":`...)
	return jsontext.Quote(b, value)
}

func optional(b []byte, key, value string) []byte {
	if value == "" {
		return b
	}
	return field(b, key, value)
}

func raw(b []byte, key string, value []byte) []byte {
	if len(value) == 0 {
		return b
	}
	b = append(b, `,"`...)
	b = append(b, key...)
	b = append(b, `":`...)
	return append(b, value...)
}

func list(b []byte, all []string) []byte {
	b = append(b, '[')
	for i, s := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsontext.Quote(b, s)
	}
	return append(b, ']')
}
