package admission

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/review"
	"github.com/millrace/millrace/internal/server/registry"
)

const (
	imagePolicyName = "ImagePolicyWebhook"
	// imagePolicyNotes begins the annotations of the audit event.
	imagePolicyNotes = "imagepolicywebhook.image-policy.k8s.io/"
	// imagePolicyMark is in the names of a pod's annotations that the server is told.
	imagePolicyMark = ".image-policy.k8s.io/"
	// imagePolicyFailedOpen marks pods that nobody has looked at.
	imagePolicyFailedOpen = "alpha.image-policy.k8s.io/failed-open"
)

// imagePolicyConfig is the configuration file: times to keep answers are in seconds, that between two tries is in
// milliseconds.
type imagePolicyConfig struct {
	ImagePolicy struct {
		KubeConfigFile string `json:"kubeConfigFile"`
		AllowTTL       int64  `json:"allowTTL"`
		DenyTTL        int64  `json:"denyTTL"`
		RetryBackoff   int64  `json:"retryBackoff"`
		DefaultAllow   bool   `json:"defaultAllow"`
	} `json:"imagePolicy"`
}

// imagePolicy asks a server elsewhere whether the images of pods may run.
type imagePolicy struct {
	client                  *review.Client
	answers                 review.Cache[imagepolicyv1alpha1.ImageReviewStatus]
	keepAllowed, keepDenied time.Duration
	failsOpen               bool
}

// imagePolicyWebhook is the plugin as a configuration sets it up.
func imagePolicyWebhook(all Configuration) (registry.Admission, error) {
	var config imagePolicyConfig
	if len(all[imagePolicyName]) == 0 {
		return registry.Admission{}, errors.New("no config specified")
	}
	if err := all.of(imagePolicyName, &config); err != nil {
		return registry.Admission{}, err
	}
	c := &config.ImagePolicy
	if c.KubeConfigFile == "" {
		return registry.Admission{}, errors.New("imagePolicy.kubeConfigFile must name the server that is asked")
	}
	p := &imagePolicy{failsOpen: c.DefaultAllow}
	var backoff time.Duration
	for _, t := range []struct {
		of                   string
		value                int64
		unit                 time.Duration
		least, most, usually time.Duration
		into                 *time.Duration
	}{
		{"retryBackoff", c.RetryBackoff, time.Millisecond, 1, 5 * time.Minute, 500 * time.Millisecond, &backoff},
		{"allowTTL", c.AllowTTL, time.Second, time.Second, 30 * time.Minute, 5 * time.Minute, &p.keepAllowed},
		{"denyTTL", c.DenyTTL, time.Second, time.Second, 30 * time.Minute, 30 * time.Second, &p.keepDenied},
	} {
		switch {
		case t.value == -1: // switched off
		case t.value == 0:
			*t.into = t.usually
		case t.value < 0 || t.value > int64(t.most/t.unit) || time.Duration(t.value)*t.unit < t.least:
			return registry.Admission{}, fmt.Errorf("imagePolicy.%s: valid value is between %v and %v, got %d times %v", t.of, t.least, t.most, t.value, t.unit)
		default:
			*t.into = time.Duration(t.value) * t.unit
		}
	}
	var err error
	if p.client, err = review.New(review.Options{ConfigFile: c.KubeConfigFile, Backoff: max(backoff, 1)}); err != nil {
		return registry.Admission{}, err
	}
	return validating(imagePolicyName, p.validate), nil
}

func (p *imagePolicy) validate(ctx context.Context, c *registry.Change) error {
	pod, ok := c.Object.(*corev1.Pod)
	if !ok || c.Operation != registry.Create && c.Operation != registry.Update || c.View != "" && c.View != "ephemeralcontainers" {
		return nil
	}
	spec := imagepolicyv1alpha1.ImageReviewSpec{Containers: imagesOf(pod, c.View), Namespace: c.Namespace, Annotations: map[string]string{}}
	for name, value := range pod.Annotations {
		if strings.Contains(name, imagePolicyMark) {
			spec.Annotations[name] = value
		}
	}
	status, err := p.ask(ctx, spec)
	if err != nil && p.failsOpen {
		c.Note(imagePolicyNotes+"failed-open", "true")
		marked := maps.Clone(pod.Annotations)
		if marked == nil {
			marked = map[string]string{}
		}
		marked[imagePolicyFailedOpen] = "true"
		pod.Annotations = marked
		return nil
	}
	if err != nil {
		return forbidden(c, "%w", err)
	}
	for name, value := range status.AuditAnnotations {
		c.Note(imagePolicyNotes+name, value)
	}
	switch {
	case status.Allowed:
		return nil
	case status.Reason != "":
		return forbidden(c, "image policy webhook backend denied one or more images: %s", status.Reason)
	}
	return forbidden(c, "one or more images rejected by webhook backend")
}

// imagesOf are the images that a change of a pod is about.
func imagesOf(pod *corev1.Pod, view string) (out []imagepolicyv1alpha1.ImageReviewContainerSpec) {
	add := func(image string) {
		out = append(out, imagepolicyv1alpha1.ImageReviewContainerSpec{Image: image})
	}
	if view != "" {
		for i := range pod.Spec.EphemeralContainers {
			add(pod.Spec.EphemeralContainers[i].Image)
		}
		return out
	}
	for i := range pod.Spec.Containers {
		add(pod.Spec.Containers[i].Image)
	}
	for i := range pod.Spec.InitContainers {
		add(pod.Spec.InitContainers[i].Image)
	}
	return out
}

// ask is the server's answer, or one that is kept.
func (p *imagePolicy) ask(ctx context.Context, spec imagepolicyv1alpha1.ImageReviewSpec) (imagepolicyv1alpha1.ImageReviewStatus, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return imagepolicyv1alpha1.ImageReviewStatus{}, err
	}
	return p.answers.Get(ctx, review.Key(sha256.Sum256(text)), func(ctx context.Context) (imagepolicyv1alpha1.ImageReviewStatus, time.Duration, error) {
		question := imagepolicyv1alpha1.ImageReview{TypeMeta: metav1.TypeMeta{APIVersion: imagepolicyv1alpha1.SchemeGroupVersion.String(), Kind: "ImageReview"}, Spec: spec}
		var answer imagepolicyv1alpha1.ImageReview
		if err := p.client.Ask(ctx, &question, &answer); err != nil {
			return answer.Status, 0, err
		}
		if answer.Status.Allowed {
			return answer.Status, p.keepAllowed, nil
		}
		return answer.Status, p.keepDenied, nil
	})
}
