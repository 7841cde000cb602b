package body_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/server/apiserver/internal/body"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
)

// Each of these would take a processor for seconds, minutes or hours.
func TestQuantitiesWithLargeExponentsAreRefusedUnread(t *testing.T) {
	for _, cpu := range []string{
		`"1e-2147483648"`, `"1e-9999999"`, `" 1E-9999999 "`, `1e-9999999`, `"1.e-9999999"`, `"1\u0065-9999999"`, `"1e-\u0039999999"`, `"1e2147483647"`, `"1e+1000"`, `"1e0001"`,
		`"\t1e-9999999"`, `"\u00201e-9999999"`, `"\u00a01e-9999999"`, `"\u20031e-9999999"`, "\"\u00a01e-9999999\u2003\"",
	} {
		for media, text := range map[negotiate.Media]string{
			negotiate.JSON: `{"metadata":{"name":"a\\u0065"},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":` + cpu + `}}}]}}`,
			negotiate.YAML: "spec:\n  overhead: {cpu: " + strings.ReplaceAll(cpu, `\u00`, `\x`) + "}\n",
		} {
			if media == negotiate.YAML && cpu[0] != '"' {
				continue // YAML has read it as a floating-point number
			}
			if media == negotiate.YAML && strings.Contains(cpu, `\u2`) {
				continue // is not written as \x in YAML
			}
			_, err := body.Body{Bytes: []byte(text), Media: media}.DecodeInto(&corev1.Pod{}, corev1.SchemeGroupVersion.WithKind("Pod"))
			if !errors.As(err, new(body.ExponentError)) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	for _, message := range []string{"\x12\x19\x82\x02\x16\n\x03cpu\x12\x0f\n\x0d1e-2147483648", "\x12\x17\x82\x02\x14\n\x03cpu\x12\x0d\n\x0b1E-99999999"} {
		b := body.Body{Media: negotiate.Protobuf, Bytes: enveloped(t, message)}
		if _, err := b.DecodeInto(&corev1.Pod{}, corev1.SchemeGroupVersion.WithKind("Pod")); !errors.As(err, new(body.ExponentError)) {
			t.Errorf("%q: %v", message, err)
		}
	}
}

// enveloped is the body of a protobuf request.
func enveloped(t *testing.T, message string) []byte {
	u := runtime.Unknown{Raw: []byte(message)}
	b, err := u.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("k8s\x00"), b...)
}

func TestNamesThatLookLikeExponentsAreNames(t *testing.T) {
	text := `{"metadata":{"name":"1e99999","labels":{"commit":"12\u006599999"}},"spec":{"overhead":{"cpu":"1","1e99999":"3"}}}`
	var pod corev1.Pod
	_, err := body.Body{Bytes: []byte(text)}.DecodeInto(&pod, corev1.SchemeGroupVersion.WithKind("Pod"))
	if err != nil || pod.Name != "1e99999" || pod.Labels["commit"] != "12e99999" || len(pod.Spec.Overhead) != 2 {
		t.Errorf("%v: %v", err, pod.ObjectMeta)
	}
	message, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var again corev1.Pod
	_, err = body.Body{Media: negotiate.Protobuf, Bytes: enveloped(t, string(message))}.DecodeInto(&again, corev1.SchemeGroupVersion.WithKind("Pod"))
	if err != nil || again.Name != pod.Name || again.Labels["commit"] != "12e99999" {
		t.Errorf("%v: %v", err, again.ObjectMeta)
	}
	var usual corev1.Pod
	_, err = body.Body{Bytes: []byte(`{"spec":{"overhead":{"cpu":"1e3"}}}`)}.DecodeInto(&usual, corev1.SchemeGroupVersion.WithKind("Pod"))
	if cpu := usual.Spec.Overhead["cpu"]; err != nil || cpu.Value() != 1000 {
		t.Errorf("%v: %v", err, cpu)
	}
}

// Whoever looked at all of the text at each exponent would take hours.
func TestAMillionExponentsInARowAreLookedAtOnce(t *testing.T) {
	if body.Harmless([]byte(`{"cpu":"` + strings.Repeat("1e9999", 1_000_000) + `"}`)) {
		t.Error("it is harmless")
	}
	if !body.Harmless([]byte(`{"cpu":"x` + strings.Repeat("1e9999", 1_000_000) + `"}`)) {
		t.Error("a word is not harmless")
	}
}

func FuzzHarmless(f *testing.F) {
	f.Add([]byte(`{"cpu":"1\u0065-99999"}`))
	f.Add([]byte(`"\u006`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if again := slices.Clone(text); body.Harmless(text) != body.Harmless(again) || !slices.Equal(text, again) {
			t.Errorf("%q was changed to %q", again, text)
		}
	})
}
