package protobuf_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/protobuf"
)

// messages are seeds: an object, its envelope, and fields of all types, some of them cut off.
func messages(t testing.TB) [][]byte {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{NodeName: "node"}}
	raw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	enveloped, err := protobuf.Marshal("v1", "Pod", pod)
	if err != nil {
		t.Fatal(err)
	}
	all := protowire.AppendFixed64(protowire.AppendTag(nil, 7, protowire.Fixed64Type), 1)
	all = protowire.AppendFixed32(protowire.AppendTag(all, 8, protowire.Fixed32Type), 2)
	all = protobuf.AppendVarint(all, 9, 1<<63)
	all = protobuf.AppendBytes(all, 10, bytes.Repeat([]byte("x"), 200))
	all = protowire.AppendTag(protobuf.AppendBytes(protowire.AppendTag(all, 11, protowire.StartGroupType), 1, "in a group"), 11, protowire.EndGroupType)
	huge := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType), 1<<63-1)
	return [][]byte{
		raw, enveloped, enveloped[len(protobuf.Magic):], all, all[:20], all[:len(all)-1], huge, nil, {0}, {0x80}, {0x0a}, {0x0c}, {0x0b}, {0x07},
		bytes.Repeat([]byte{0xff}, 11), []byte(protobuf.Magic), {0x0a, 0x03, 0x08, 0x01, 0xff}, protobuf.AppendVarint([]byte(protobuf.Magic), 2, 1),
	}
}

func FuzzFieldsAreThoseThatProtowireFinds(f *testing.F) {
	for _, m := range messages(f) {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		s, rest := protobuf.Scan(message), message
		for s.Next() {
			number, kind, n := protowire.ConsumeTag(rest)
			size := protowire.ConsumeFieldValue(number, kind, rest[max(n, 0):])
			if n < 0 || size < 0 {
				t.Fatalf("field %d of %x, where protowire finds none", s.Number, rest)
			}
			value := rest[n : n+size]
			if s.Number != number || s.Type != kind || !bytes.Equal(s.Whole, rest[:n+size]) || !bytes.Equal(s.Rest(), rest[n+size:]) {
				t.Fatalf("field %d of type %d, want %d of type %d", s.Number, s.Type, number, kind)
			}
			if text, n := protowire.ConsumeBytes(value); kind == protowire.BytesType && (n < 0 || s.Bytes == nil || !bytes.Equal(s.Bytes, text)) {
				t.Fatalf("%x, want %x", s.Bytes, text)
			}
			if v, n := protowire.ConsumeVarint(value); kind == protowire.VarintType && (n < 0 || s.Varint != v) {
				t.Fatalf("%d, want %d", s.Varint, v)
			}
			rest = rest[n+size:]
		}
		if (s.Err() == nil) != (len(rest) == 0) {
			t.Fatalf("%v, with %x left", s.Err(), rest)
		}
		if len(rest) > 0 {
			if number, kind, n := protowire.ConsumeTag(rest); n > 0 && protowire.ConsumeFieldValue(number, kind, rest[n:]) >= 0 {
				t.Fatalf("stopped before field %d", number)
			}
		}
		for number := range protobuf.Number(20) {
			before, one, after, found := protobuf.Split(message, number)
			if joined := bytes.Join([][]byte{before, one.Whole, after}, nil); !bytes.Equal(joined, message) {
				t.Fatalf("split at %d (found: %v) it becomes %x", number, found, joined)
			}
			if last, ok := protobuf.Last(message, number); ok && last.Number != number || found && !ok {
				t.Fatalf("the last field %d: %v, %v", number, last, ok)
			}
		}
		protobuf.Entry(message)
	})
}

func FuzzEnvelopesAreReadAsTheLibraryReadsThem(f *testing.F) {
	for _, m := range messages(f) {
		f.Add(m)
		f.Add(append([]byte(protobuf.Magic), m...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := protobuf.Open(b)
		content, contentErr := protobuf.Content(b)
		if err == nil && (contentErr != nil || !bytes.Equal(content, e.Raw)) {
			t.Fatalf("%x, %v is said to be in it, and to be %x", content, contentErr, e.Raw)
		}
		var want runtime.Unknown
		if err != nil || want.Unmarshal(b[len(protobuf.Magic):]) != nil {
			return // the library accepts some messages that are malformed, and refuses some with fields of other types
		}
		if e.APIVersion != want.APIVersion || e.Kind != want.Kind || !bytes.Equal(e.Raw, want.Raw) {
			t.Fatalf("%+v, want %+v", e, want)
		}
	})
}

func TestWhatIsMarshaledIsWhatTheLibraryMarshals(t *testing.T) {
	c := &corev1.ConfigMap{Data: map[string]string{"a": "b"}}
	raw, _ := c.Marshal()
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Raw: raw}
	want, _ := unknown.Marshal()
	got, err := protobuf.Marshal("v1", "ConfigMap", c)
	if err != nil || string(got) != protobuf.Magic+string(want) {
		t.Errorf("%x, %v, want %x", got, err, want)
	}
	start := protobuf.AppendEnvelopeStart(nil, "v1", "ConfigMap")
	if !bytes.HasPrefix(got, start) || len(protobuf.AppendEnvelopeEnd(nil)) != protobuf.EnvelopeEndSize {
		t.Errorf("%x does not begin with %x", got, start)
	}
	if got, want := protobuf.AppendBytes(nil, 300, "abc"), protobuf.Size(300, 3); len(got) != want {
		t.Errorf("%d bytes, %d were announced", len(got), want)
	}
}

func TestAnEntryOfAMap(t *testing.T) {
	entry := protobuf.AppendBytes(protobuf.AppendBytes(nil, 1, "key"), 2, "value")
	if key, value, err := protobuf.Entry(entry); string(key) != "key" || string(value) != "value" || err != nil {
		t.Errorf("%s, %s, %v", key, value, err)
	}
	if _, _, err := protobuf.Entry(entry[:len(entry)-1]); err == nil {
		t.Error("half an entry is none")
	}
}
