package admission_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"

	"github.com/millrace/millrace/internal/server/admission"
	"github.com/millrace/millrace/internal/server/admission/internal/admissiontest"
)

// judge answers reviews of images: those that begin with "bad" may not run, with "none" nobody answers.
func judge(t *testing.T, asked *atomic.Int32) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var review imagepolicyv1alpha1.ImageReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Kind != "ImageReview" || review.APIVersion != "imagepolicy.k8s.io/v1alpha1" || review.Spec.Namespace != "n" {
			t.Errorf("asked %+v: %v", review, err)
		}
		review.Status = imagepolicyv1alpha1.ImageReviewStatus{Allowed: true, AuditAnnotations: map[string]string{"seen": review.Spec.Annotations["x.image-policy.k8s.io/ticket"]}}
		for _, c := range review.Spec.Containers {
			switch {
			case strings.HasPrefix(c.Image, "bad"):
				review.Status.Allowed, review.Status.Reason = false, "it is bad"
			case strings.HasPrefix(c.Image, "none"):
				w.WriteHeader(http.StatusBadRequest)
				return
			}
		}
		json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(s.Close)
	return s
}

// imagePolicy is the configuration of the plugin for a server.
func imagePolicy(t *testing.T, server, more string) admission.Configuration {
	t.Helper()
	directory := t.TempDir()
	kubeconfig := filepath.Join(directory, "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: '" + server + "'}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(directory, "images.yaml")
	if err := os.WriteFile(own, []byte(fmt.Sprintf("imagePolicy: {kubeConfigFile: %s, %s}\n", kubeconfig, more)), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(directory, "admission.yaml")
	text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{name: ImagePolicyWebhook, path: images.yaml}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := admission.ReadConfiguration(config)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func of(images ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers = nil
		for i, image := range images {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: image})
		}
	}
}

func TestAServerElsewhereDecidesAboutImages(t *testing.T) {
	var asked atomic.Int32
	s := judge(t, &asked)
	w := newServer(t, admission.Options{Enable: []string{"ImagePolicyWebhook"}, Configuration: imagePolicy(t, s.URL, "allowTTL: 60")})
	ticket := func(p *corev1.Pod) {
		p.Annotations = map[string]string{"x.image-policy.k8s.io/ticket": "7", "other": "8"}
	}
	for i := range 3 {
		_, err := w.Try("pods", pod(fmt.Sprint("good", i), of("good:1"), ticket), w.Options())
		w.Must(err)
	}
	if asked.Load() != 1 || w.Noted["imagepolicywebhook.image-policy.k8s.io/seen"] != "7" {
		t.Errorf("%d questions, noted %v", asked.Load(), w.Noted)
	}
	_, err := w.Try("pods", pod("bad", of("good:1", "bad:1")), w.Options())
	refused(t, err, `pods "bad" is forbidden: image policy webhook backend denied one or more images: it is bad`)
	_, err = w.Try("pods", pod("none", of("none:1")), w.Options())
	refused(t, err, `pods "none" is forbidden: the webhook answers 400 Bad Request`)
	w.Create("configmaps", admissiontest.ConfigMap("c"))
	if asked.Load() != 3 {
		t.Errorf("%d questions, want three", asked.Load())
	}
}

func TestPodsThatNobodyLookedAtAreMarkedIfTheyMayRun(t *testing.T) {
	var asked atomic.Int32
	s := judge(t, &asked)
	w := newServer(t, admission.Options{Enable: []string{"ImagePolicyWebhook"}, Configuration: imagePolicy(t, s.URL, "defaultAllow: true")})
	o, err := w.Try("pods", pod("none", of("none:1")), w.Options())
	w.Must(err)
	if o.GetAnnotations()["alpha.image-policy.k8s.io/failed-open"] != "true" || w.Noted["imagepolicywebhook.image-policy.k8s.io/failed-open"] != "true" {
		t.Errorf("annotations %v, noted %v", o.GetAnnotations(), w.Noted)
	}
	if stored := w.read("pods", "n", "none"); stored.GetAnnotations()["alpha.image-policy.k8s.io/failed-open"] != "true" {
		t.Errorf("stored with the annotations %v", stored.GetAnnotations())
	}
}

func TestAnImagePolicyThatIsWrongIsRefusedAtStart(t *testing.T) {
	for more, want := range map[string]string{
		"allowTTL: 1801":                "imagePolicy.allowTTL: valid value is between 1s and 30m0s",
		"denyTTL: -2":                   "imagePolicy.denyTTL: valid value is between 1s and 30m0s",
		"retryBackoff: 300001":          "imagePolicy.retryBackoff: valid value is between 1ns and 5m0s",
		"allowTTL: 9223372036854775807": "imagePolicy.allowTTL: valid value",
		"allowTTL: often":               "ImagePolicyWebhook",
	} {
		_, err := admission.New(admission.Options{Enable: []string{"ImagePolicyWebhook"}, Configuration: imagePolicy(t, "https://127.0.0.1:1", more)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", more, err, want)
		}
	}
	_, err := admission.New(admission.Options{Enable: []string{"ImagePolicyWebhook"}})
	if err == nil || !strings.Contains(err.Error(), "no config specified") {
		t.Error(err)
	}
}
