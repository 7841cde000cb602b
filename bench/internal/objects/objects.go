// Package objects prepares the bodies that a benchmark sends. A Template is text with a few holes, and filling them is
// all the work for a request.
//
// Every object has a marker, "seq=" and eight digits, by which a watcher knows which write it receives. Texts are the
// same in every run, and compress about as well as real objects.
package objects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Holes, as they are written in a text. Except for the resource version, values have the same length.
const (
	nameHole    = "NAMENAMENAME"
	seqHole     = "SEQSEQSE"
	shardHole   = "SHARDSHA"
	versionHole = "VERSION_"
)

// Fill has the values for the holes.
type Fill struct {
	Name    string // of NameLength characters; see Name
	Seq     int
	Shard   int
	Version string
}

// Name returns a name of the right length.
func Name(prefix byte, n int) string { return fmt.Sprintf("%c-%010d", prefix, n) }

// Shard returns the value for Fill.Shard.
func Shard(n int) string { return fmt.Sprintf("s-%06d", n) }

// Template is text with holes.
type Template struct {
	parts [][]byte
	holes []string // holes[i] is after parts[i]
}

// New returns the template for a text with holes.
func New(text []byte) Template {
	var t Template
	for {
		at, found := len(text), ""
		for _, h := range []string{nameHole, seqHole, shardHole, versionHole} {
			if i := bytes.Index(text, []byte(h)); i >= 0 && i < at {
				at, found = i, h
			}
		}
		t.parts = append(t.parts, text[:at])
		if found == "" {
			return t
		}
		t.holes = append(t.holes, found)
		text = text[at+len(found):]
	}
}

// With fills the holes.
func (t Template) With(f Fill) []byte {
	size := 0
	for _, p := range t.parts {
		size += len(p) + 24
	}
	b := make([]byte, 0, size)
	for i, p := range t.parts {
		b = append(b, p...)
		if i == len(t.holes) {
			break
		}
		switch t.holes[i] {
		case nameHole:
			b = append(b, f.Name...)
		case seqHole:
			b = fmt.Appendf(b, "%08d", f.Seq)
		case shardHole:
			b = append(b, Shard(f.Shard)...)
		case versionHole:
			b = append(b, f.Version...)
		}
	}
	return b
}

// Answered makes a template of an object from a server: its marker and its resource version become holes.
func Answered(body []byte) (Template, error) {
	body = bytes.TrimSpace(slices.Clone(body))
	if err := Remark(body, 0); err != nil {
		return Template{}, err
	}
	copy(body[bytes.Index(body, []byte("seq="))+4:], seqHole)
	version := Version(body)
	if version == "" {
		return Template{}, fmt.Errorf("no resource version in %.200q", body)
	}
	return New(bytes.Replace(body, []byte(versionMark+version+`"`), []byte(versionMark+versionHole+`"`), 1)), nil
}

// Remark changes the marker of an object in place.
func Remark(body []byte, seq int) error {
	at := bytes.Index(body, []byte("seq="))
	if at < 0 || len(body) < at+12 {
		return fmt.Errorf("no marker in %.200q", body)
	}
	copy(body[at+4:at+12], fmt.Sprintf("%08d", seq))
	return nil
}

const versionMark = `"resourceVersion":"`

// Version returns the first resource version in a JSON text.
func Version(text []byte) string {
	at := bytes.Index(text, []byte(versionMark))
	if at < 0 {
		return ""
	}
	version, _, _ := bytes.Cut(text[at+len(versionMark):], []byte{'"'})
	return string(version)
}

func encode(o any) []byte {
	b, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("objects: an object of our own cannot be encoded: %v", err))
	}
	return b
}

// envelope wraps a message as Kubernetes does in protobuf.
func envelope(apiVersion, kind string, message interface{ Marshal() ([]byte, error) }) []byte {
	raw, err := message.Marshal()
	if err == nil {
		u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
		var document []byte
		if document, err = u.Marshal(); err == nil {
			return append([]byte("k8s\x00"), document...)
		}
	}
	panic(fmt.Sprintf("objects: an object of our own cannot be encoded: %v", err))
}

// pod takes about 6 KB as JSON.
func pod() *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: nameHole, Namespace: "default", Labels: map[string]string{"app": "web", "tier": "front", "shard": shardHole},
			Annotations: map[string]string{"marker": "seq=" + seqHole, "note": words(300, 1)}},
	}
	for i := range 3 {
		c := corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "registry.example/app:1", Command: []string{"/app", "--serve"}}
		for j := range 12 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: words(20, uint64(i*12+j))})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

// Pod returns a pod without a node, in JSON.
func Pod() Template { return New(encode(pod())) }

// UnlikePod returns a pod that has almost nothing in common with those of other numbers. Its name is its only hole.
func UnlikePod(n int) Template {
	p, seed := pod(), uint64(n)*100
	p.Labels = map[string]string{"app": fmt.Sprintf("app-%d", n)}
	p.Annotations = map[string]string{"note": words(300, seed)}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.Image = fmt.Sprintf("registry.example/app-%d:%d", n, i)
		for j := range c.Env {
			c.Env[j].Value = words(20, seed+uint64(1+i*12+j))
		}
	}
	return New(encode(p))
}

// PodProto returns Pod in protobuf.
func PodProto() Template { return New(envelope("v1", "Pod", pod())) }

// PlacedPod returns a pod with a node, which has the name of the shard.
func PlacedPod() Template {
	p := pod()
	p.Spec.NodeName = shardHole
	return New(encode(p))
}

// SmallPod returns a small pod with a node, so that the cost of its events can be seen.
func SmallPod() Template {
	p := pod()
	p.Annotations = map[string]string{"marker": "seq=" + seqHole}
	p.Spec.NodeName = shardHole
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "registry.example/app:1"}}
	return New(encode(p))
}

// ServedPod returns approximately what a server makes of a placed pod.
func ServedPod() Template {
	p := pod()
	p.ObjectMeta = served(p.ObjectMeta, `{"f:metadata":{"f:annotations":{".":{},"f:marker":{},"f:note":{}},"f:labels":{".":{},"f:app":{},"f:shard":{},"f:tier":{}}},"f:spec":{}}`)
	p.Spec.NodeName = shardHole
	p.Spec.RestartPolicy, p.Spec.DNSPolicy, p.Spec.SchedulerName = corev1.RestartPolicyAlways, corev1.DNSClusterFirst, "default-scheduler"
	p.Status.Phase, p.Status.QOSClass = corev1.PodPending, corev1.PodQOSBestEffort
	return New(encode(p))
}

// ConfigMap returns a config map with a text of this size, the same for the same seed.
func ConfigMap(size, seed int) Template { return New(encode(configMap(size, seed))) }

// ServedConfigMap returns approximately what a server makes of it.
func ServedConfigMap(size int) Template {
	m := configMap(size, 0)
	m.ObjectMeta = served(m.ObjectMeta, `{"f:data":{".":{},"f:marker":{},"f:text":{}}}`)
	return New(encode(m))
}

func configMap(size, seed int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: nameHole, Namespace: "default"},
		Data:       map[string]string{"marker": "seq=" + seqHole, "text": words(size, uint64(7+seed))},
	}
}

func served(m metav1.ObjectMeta, fields string) metav1.ObjectMeta {
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	m.UID, m.ResourceVersion, m.CreationTimestamp = "00000000-1111-2222-3333-444444444444", "00000000", at
	m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "bench", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}}
	return m
}

// Lease is a node's lease. The marker is its holder.
func Lease() Template {
	holder, seconds := "seq="+seqHole, int32(40)
	at := metav1.NewMicroTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return New(encode(&coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Name: nameHole, Namespace: "default"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at},
	}))
}

// Apply returns an applied configuration: a deployment with one container.
func Apply() Template {
	return New([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"` + nameHole + `","annotations":{"marker":"seq=` + seqHole +
		`"},"labels":{"app":"web"}},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},` +
		`"spec":{"containers":[{"name":"web","image":"registry.example/app:1","ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"}]}]}}}}`))
}

// Patch changes the marker.
func Patch() Template {
	return New([]byte(`{"metadata":{"annotations":{"marker":"seq=` + seqHole + `"}}}`))
}

var vocabulary = strings.Fields("pod node service volume claim label field watch list event cache store index revision window cursor reader writer queue worker retry")

// words returns text of this size, the same for the same seed.
func words(size int, seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(vocabulary[r.IntN(len(vocabulary))])
		fmt.Fprintf(&b, "-%03x ", r.IntN(4096))
	}
	return strings.TrimRight(b.String()[:size], " -") + strings.Repeat(".", size-len(strings.TrimRight(b.String()[:size], " -")))
}
