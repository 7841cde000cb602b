package tree

import (
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/jsontext"
	"github.com/millrace/millrace/internal/server/resource/decode"
)

const noTime = `"creationTimestamp":null`

// parseMetadata reads metadata. A null means something only as a creation timestamp, where encoders of Go structs write
// one.
func (o *Object) parseMetadata(text string, known bool) bool {
	if at := strings.Index(text, "null"); at >= 0 {
		from := at + len("null") - len(noTime)
		if from < 0 || !strings.HasPrefix(text[from:], noTime) || strings.Contains(text[at+1:], "null") {
			return false
		}
	}
	if !decode.Text(text, &o.meta) || o.meta.SelfLink != "" {
		return false
	}
	return o.ordinaryMetadata(known)
}

// ordinaryMetadata reports whether the metadata has nothing that is written differently than it was read.
func (o *Object) ordinaryMetadata(known bool) bool {
	m := &o.meta
	if m.Labels != nil && len(m.Labels) == 0 || m.Annotations != nil && len(m.Annotations) == 0 || m.Finalizers != nil && len(m.Finalizers) == 0 ||
		m.OwnerReferences != nil && len(m.OwnerReferences) == 0 || m.ManagedFields != nil && len(m.ManagedFields) == 0 || m.Generation < 0 {
		return false
	}
	for i := range m.ManagedFields {
		e := &m.ManagedFields[i]
		if e.FieldsV1 == nil || known {
			continue
		}
		given := e.FieldsV1.GetRawString()
		same, _, ok := canonical(given)
		if !ok || same[0] != '{' {
			return false
		}
		if same != given {
			e.FieldsV1.SetRawString(same)
		}
	}
	return true
}

// metadataWriter writes metadata with its names in sorted order.
type metadataWriter struct {
	text []byte
}

func (w *metadataWriter) name(name string) {
	if last := w.text[len(w.text)-1]; last != '{' {
		w.text = append(w.text, ',')
	}
	w.text = append(append(append(w.text, '"'), name...), '"', ':')
}

func (w *metadataWriter) string(name, value string) {
	if value != "" {
		w.name(name)
		w.text = jsontext.Quote(w.text, value)
	}
}

func (w *metadataWriter) strings(name string, values map[string]string) {
	if len(values) == 0 {
		return
	}
	w.name(name)
	e := encoders.Get().(*encoder)
	defer e.release()
	from := len(e.names)
	for key := range values {
		e.names = append(e.names, key)
	}
	keys := e.names[from:]
	slices.Sort(keys)
	w.text = append(w.text, '{')
	for _, key := range keys {
		if w.text[len(w.text)-1] != '{' {
			w.text = append(w.text, ',')
		}
		w.text = append(jsontext.Quote(w.text, key), ':')
		w.text = jsontext.Quote(w.text, values[key])
	}
	w.text = append(w.text, '}')
}

func (w *metadataWriter) time(name string, at *metav1.Time) {
	if at == nil {
		return
	}
	w.name(name)
	if at.IsZero() {
		w.text = append(w.text, "null"...)
		return
	}
	w.text = append(w.text, '"')
	w.text = at.UTC().AppendFormat(w.text, time.RFC3339)
	w.text = append(w.text, '"')
}

func (w *metadataWriter) number(name string, value int64) {
	w.name(name)
	w.text = strconv.AppendInt(w.text, value, 10)
}

func (w *metadataWriter) truth(name string, value *bool) {
	if value != nil {
		w.name(name)
		w.text = strconv.AppendBool(w.text, *value)
	}
}

func appendMetadata(b []byte, m *metav1.ObjectMeta, resourceVersion string) []byte {
	w := metadataWriter{append(b, '{')}
	w.strings("annotations", m.Annotations)
	if !m.CreationTimestamp.IsZero() {
		w.time("creationTimestamp", &m.CreationTimestamp)
	}
	if m.DeletionGracePeriodSeconds != nil {
		w.number("deletionGracePeriodSeconds", *m.DeletionGracePeriodSeconds)
	}
	w.time("deletionTimestamp", m.DeletionTimestamp)
	if len(m.Finalizers) > 0 {
		w.name("finalizers")
		w.text = append(w.text, '[')
		for i, f := range m.Finalizers {
			if i > 0 {
				w.text = append(w.text, ',')
			}
			w.text = jsontext.Quote(w.text, f)
		}
		w.text = append(w.text, ']')
	}
	w.string("generateName", m.GenerateName)
	if m.Generation != 0 {
		w.number("generation", m.Generation)
	}
	w.strings("labels", m.Labels)
	if len(m.ManagedFields) > 0 {
		w.name("managedFields")
		w.text = append(w.text, '[')
		for i := range m.ManagedFields {
			if i > 0 {
				w.text = append(w.text, ',')
			}
			w.manager(&m.ManagedFields[i])
		}
		w.text = append(w.text, ']')
	}
	w.string("name", m.Name)
	w.string("namespace", m.Namespace)
	if len(m.OwnerReferences) > 0 {
		w.name("ownerReferences")
		w.text = append(w.text, '[')
		for i := range m.OwnerReferences {
			if i > 0 {
				w.text = append(w.text, ',')
			}
			w.owner(&m.OwnerReferences[i])
		}
		w.text = append(w.text, ']')
	}
	w.string("resourceVersion", resourceVersion)
	w.string("selfLink", m.SelfLink)
	w.string("uid", string(m.UID))
	return append(w.text, '}')
}

func (w *metadataWriter) manager(e *metav1.ManagedFieldsEntry) {
	w.text = append(w.text, '{')
	w.string("apiVersion", e.APIVersion)
	w.string("fieldsType", e.FieldsType)
	if e.FieldsV1 != nil {
		w.name("fieldsV1")
		// A set that was made here has the library's order, which differs from that of names for numbers.
		same, _, ok := canonical(e.FieldsV1.GetRawString())
		if !ok {
			same = "{}"
		}
		w.text = append(w.text, same...)
	}
	w.string("manager", e.Manager)
	w.string("operation", string(e.Operation))
	w.string("subresource", e.Subresource)
	w.time("time", e.Time)
	w.text = append(w.text, '}')
}

func (w *metadataWriter) owner(o *metav1.OwnerReference) {
	w.text = append(w.text, '{')
	w.text = jsontext.Quote(append(w.text, `"apiVersion":`...), o.APIVersion)
	w.truth("blockOwnerDeletion", o.BlockOwnerDeletion)
	w.truth("controller", o.Controller)
	w.text = jsontext.Quote(append(w.text, `,"kind":`...), o.Kind)
	w.text = jsontext.Quote(append(w.text, `,"name":`...), o.Name)
	w.text = jsontext.Quote(append(w.text, `,"uid":`...), string(o.UID))
	w.text = append(w.text, '}')
}
