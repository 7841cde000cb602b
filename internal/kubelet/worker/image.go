package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// retryConfig is the delay before a container with an invalid configuration is tried again.
const retryConfig = 10 * time.Second

// maxFailureText is how long ErrImagePull is shown before ImagePullBackOff replaces it: long enough to be seen.
const maxFailureText = 5 * time.Second

// invalidName is the one reason that retrying cannot fix.
const invalidName = "InvalidImageName"

// image finds or pulls a container's image. It returns false if the container must wait.
func (t *syncTask) image(ctx context.Context, c *corev1.Container) (string, bool) {
	return t.imageFor(ctx, c, c.Image, c.ImagePullPolicy)
}

// volumeImages finds or pulls the images that a container mounts as volumes, by the volume's name. It returns false if
// the container must wait.
func (t *syncTask) volumeImages(ctx context.Context, c *corev1.Container) (map[string]string, bool) {
	var refs map[string]string
	for i := range t.pod.Spec.Volumes {
		v := &t.pod.Spec.Volumes[i]
		isMount := func(m corev1.VolumeMount) bool { return m.Name == v.Name }
		if v.Image == nil || !slices.ContainsFunc(c.VolumeMounts, isMount) {
			continue
		}
		ref, ok := t.imageFor(ctx, c, v.Image.Reference, v.Image.PullPolicy)
		if !ok {
			return nil, false
		}
		if refs == nil {
			refs = map[string]string{}
		}
		refs[v.Name] = ref
	}
	return refs, true
}

// imageFor finds or pulls an image that a container needs. It returns false if the container must wait.
func (t *syncTask) imageFor(ctx context.Context, c *corev1.Container, name string, policy corev1.PullPolicy) (string, bool) {
	if err := checkImageName(name); err != nil {
		why := fmt.Sprintf("Failed to apply default image tag %q: %v", name, err)
		if t.record.waits[c.Name].reason != invalidName {
			t.eventOf(c, corev1.EventTypeWarning, "InspectFailed", "%s", why)
		}
		t.imageFailed(c, invalidName, why)
		return "", false
	}
	ref, err := t.crew.Images.Find(ctx, name)
	if ctx.Err() != nil {
		return "", false
	}
	if err != nil {
		t.imageFailed(c, "ImageInspectError", fmt.Sprintf("Failed to inspect image %q: %v", name, err))
		return "", false
	}
	if ref != "" && policy != corev1.PullAlways {
		t.eventOf(c, corev1.EventTypeNormal, "Pulled", "Container image %q already present on machine and can be accessed by the pod", name)
		return ref, true
	}
	if policy == corev1.PullNever {
		t.imageFailed(c, "ErrImageNeverPull", fmt.Sprintf("Container image %q is not present with pull policy of Never", name))
		return "", false
	}
	return t.pull(ctx, c, name)
}

func (t *syncTask) pull(ctx context.Context, c *corev1.Container, name string) (string, bool) {
	series := t.record.pulls[name]
	if left := min(series.until(series.since).Sub(t.now), series.delay); series.delay > 0 && left > 0 {
		shown, failed := t.record.waits[c.Name]
		if unseen := min(maxFailureText, series.delay/2) - (series.delay - left); failed && unseen > 0 {
			t.syncAfter(unseen)
			return "", false
		}
		t.eventOf(c, corev1.EventTypeNormal, "BackOff", "Back-off pulling image %q", name)
		if shown.reason != "ImagePullBackOff" {
			t.record.wait(c.Name, "ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", name, shown.message))
		}
		t.syncAfter(left)
		return "", false
	}
	t.eventOf(c, corev1.EventTypeNormal, "Pulling", "Pulling image %q", name)
	began := time.Now()
	ref, err := t.fetch(ctx, name)
	if err != nil {
		if ctx.Err() == nil {
			t.pullFailed(c, name, series, err)
		}
		return "", false
	}
	delete(t.record.pulls, name)
	took := time.Since(began).Round(time.Millisecond)
	t.eventOf(c, corev1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %v (%v including waiting)", name, took, took)
	return ref, true
}

// fetch pulls an image. This may take long, so it holds no worker.
func (t *syncTask) fetch(ctx context.Context, image string) (string, error) {
	t.worker.detach()
	var credentials []container.Credential
	if t.crew.Furnish != nil {
		var err error
		if credentials, err = t.crew.Furnish.Credentials(ctx, t.pod, image); err != nil {
			return "", err
		}
	}
	t.reportStatus(ctx) // the pod waits for its image
	return t.crew.Images.Pull(ctx, image, credentials)
}

func (t *syncTask) pullFailed(c *corev1.Container, name string, series backoff, err error) {
	if t.record.pulls == nil {
		t.record.pulls = map[string]backoff{}
	}
	series = series.next(t.crew.Backoff, time.Now())
	t.record.pulls[name] = series
	t.eventOf(c, corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", name, err)
	t.imageFailed(c, "ErrImagePull", err.Error())
	t.syncAfter(min(maxFailureText, series.delay/2)) // so that the back-off is reported next
}

func (t *syncTask) imageFailed(c *corev1.Container, reason, message string) {
	if t.record.waits[c.Name].reason != reason {
		t.eventOf(c, corev1.EventTypeWarning, "Failed", "Error: %s", reason)
	}
	t.record.wait(c.Name, reason, message)
	t.syncAfter(retryConfig)
}
