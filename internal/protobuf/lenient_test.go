package protobuf_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace/millrace/internal/protobuf"
)

// Each message has a quantity where the generated decoder finds it.
func TestEverythingFindsWhatTheGeneratedDecodersFind(t *testing.T) {
	const quantity = "\x0a\x021k"
	for name, message := range map[string]string{
		"as usual":                   "\x0a\x03cpu\x12\x04" + quantity,
		"a tag of too many bytes":    "\x0a\x03cpu\x92\x80\x80\x80\x80\x80\x80\x80\x80\x7e\x04" + quantity,
		"a tag of too many bits":     "\x0a\x03cpu\x92\x80\x80\x80\x80\x01\x04" + quantity,
		"a length of too many bytes": "\x0a\x03cpu\x12\x84\x80\x80\x80\x80\x80\x80\x80\x80\x7e" + quantity,
		"after a group":              "\x0a\x03cpu\x1b\x20\x01\x1c\x12\x04" + quantity,
		"after other types":          "\x0a\x03cpu\x20\x80\x01\x2d1234\x3112345678\x12\x04" + quantity,
	} {
		message = "\x0a" + string(rune(len(message))) + message
		var list corev1.ResourceRequirements
		if err := list.Unmarshal([]byte(message)); err != nil || !list.Limits.Cpu().Equal(resource.MustParse("1k")) {
			t.Errorf("%s: the decoder finds %v, %v", name, list.Limits, err)
		}
		var found []string
		protobuf.Everything([]byte(message), func(v []byte) { found = append(found, string(v)) })
		if !slices.Contains(found, "1k") {
			t.Errorf("%s: there is %q", name, found)
		}
	}
}

func FuzzEverythingEnds(f *testing.F) {
	for _, m := range messages(f) {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		protobuf.Everything(b, func([]byte) { n++ })
		if n > 32*(len(b)+1) {
			t.Errorf("%d values in %d bytes", n, len(b))
		}
	})
}
