package audit

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/millrace/millrace/server/auth"
)

// event is one of audit.k8s.io/v1. It is written by hand: a library would take most of the time of an audit.
type event struct {
	level              Level
	stage              Stage
	at                 *auth.Attributes
	id, uri, agent     string
	sources            []string
	impersonated       *auth.User
	constraint         string // of the impersonation
	uid, version       string // of the object
	status             *metav1.Status
	request, response  []byte
	received, happened time.Time
	annotations        map[string]string
}

// changesNothing reports whether the event is the beginning of a get. It may be written together with the end.
func (e *event) changesNothing() bool {
	return e.stage == RequestReceived && e.at.IsResource && e.at.Verb == "get" && e.at.Subresource == ""
}

func newID() string { return string(uuid.NewUUID()) }

const timeFormat = "2006-01-02T15:04:05.000000Z07:00"

// append adds the event as JSON.
func (e *event) append(b []byte) []byte {
	b = append(b, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"`...)
	b = append(b, e.level.String()...)
	b = field(b, "auditID", e.id)
	b = field(b, "stage", stageNames[e.stage])
	b = field(b, "requestURI", e.uri)
	b = field(b, "verb", e.at.Verb)
	b = append(b, `,"user":`...)
	b = user(b, &e.at.User)
	if e.impersonated != nil {
		b = append(b, `,"impersonatedUser":`...)
		b = user(b, e.impersonated)
		if e.constraint != "" {
			b = append(b, `,"authenticationMetadata":{"impersonationConstraint":`...)
			b = text(b, e.constraint)
			b = append(b, '}')
		}
	}
	if len(e.sources) > 0 {
		b = append(b, `,"sourceIPs":`...)
		b = list(b, e.sources)
	}
	b = optional(b, "userAgent", e.agent)
	if e.at.IsResource {
		b = e.object(b)
	}
	if e.status != nil {
		b = append(b, `,"responseStatus":`...)
		b = status(b, e.status)
	}
	b = raw(b, "requestObject", e.request)
	b = raw(b, "responseObject", e.response)
	b = append(b, `,"requestReceivedTimestamp":"`...)
	b = e.received.UTC().AppendFormat(b, timeFormat)
	b = append(b, `","stageTimestamp":"`...)
	b = e.happened.UTC().AppendFormat(b, timeFormat)
	b = append(b, '"')
	if len(e.annotations) > 0 {
		b = append(b, `,"annotations":{`...)
		for i, key := range slices.Sorted(maps.Keys(e.annotations)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = text(b, key)
			b = append(b, ':')
			b = text(b, e.annotations[key])
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

// object adds what the request is for.
func (e *event) object(b []byte) []byte {
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
		b = text(b, f.value)
	}
	return append(b, '}')
}

func user(b []byte, u *auth.User) []byte {
	b = append(b, '{')
	open := len(b)
	if u.Name != "" {
		b = append(b, `"username":`...)
		b = text(b, u.Name)
	}
	comma := func() {
		if len(b) > open {
			b = append(b, ',')
		}
	}
	if u.UID != "" {
		comma()
		b = append(b, `"uid":`...)
		b = text(b, u.UID)
	}
	if len(u.Groups) > 0 {
		comma()
		b = append(b, `"groups":`...)
		b = list(b, u.Groups)
	}
	if len(u.Extra) > 0 {
		comma()
		b = append(b, `"extra":{`...)
		for i, key := range slices.Sorted(maps.Keys(u.Extra)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = text(b, key)
			b = append(b, ':')
			b = list(b, u.Extra[key])
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

func status(b []byte, s *metav1.Status) []byte {
	if s.Status == "" && s.Message == "" && s.Reason == "" && s.Details == nil {
		b = append(b, `{"metadata":{},"code":`...)
		b = strconv.AppendInt(b, int64(s.Code), 10)
		return append(b, '}')
	}
	plain := *s
	plain.TypeMeta, plain.ListMeta = metav1.TypeMeta{}, metav1.ListMeta{}
	encoded, err := json.Marshal(&plain)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, encoded...)
}

func field(b []byte, key, value string) []byte {
	if key != "auditID" { // the level before it is still open
		b = append(b, ',')
	} else {
		b = append(b, `",`...)
	}
	b = append(b, '"')
	b = append(b, key...)
	b = append(b, `":`...)
	return text(b, value)
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
		b = text(b, s)
	}
	return append(b, ']')
}

// text adds a string as JSON. What is not plain goes to the library.
func text(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f || c == '<' || c == '>' || c == '&' {
			encoded, err := json.Marshal(s)
			if err != nil {
				return append(b, `""`...)
			}
			return append(b, encoded...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
