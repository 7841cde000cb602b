package worker

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/kubelet/container"
)

// retryConfig is how soon a container is tried again whose configuration cannot be made.
const retryConfig = 10 * time.Second

// failureShown is how long the reason of a failed pull is told before the back-off that follows it: long enough to be seen.
const failureShown = 5 * time.Second

// invalidName is the reason that no waiting mends.
const invalidName = "InvalidImageName"

// image finds or pulls a container's image. It is false if the container must wait.
func (t *turn) image(ctx context.Context, c *corev1.Container) (string, bool) {
	if err := checkImageName(c.Image); err != nil {
		why := fmt.Sprintf("Failed to apply default image tag %q: %v", c.Image, err)
		if t.life.waits[c.Name].reason != invalidName {
			t.eventOf(c, corev1.EventTypeWarning, "InspectFailed", "%s", why)
		}
		t.imageFailed(c, invalidName, why)
		return "", false
	}
	ref, err := t.crew.Images.Find(ctx, c.Image)
	if ctx.Err() != nil {
		return "", false
	}
	if err != nil {
		t.imageFailed(c, "ImageInspectError", fmt.Sprintf("Failed to inspect image %q: %v", c.Image, err))
		return "", false
	}
	if ref != "" && c.ImagePullPolicy != corev1.PullAlways {
		t.eventOf(c, corev1.EventTypeNormal, "Pulled", "Container image %q already present on machine and can be accessed by the pod", c.Image)
		return ref, true
	}
	if c.ImagePullPolicy == corev1.PullNever {
		t.imageFailed(c, "ErrImageNeverPull", fmt.Sprintf("Container image %q is not present with pull policy of Never", c.Image))
		return "", false
	}
	return t.pull(ctx, c)
}

func (t *turn) pull(ctx context.Context, c *corev1.Container) (string, bool) {
	series := t.life.pulls[c.Image]
	if left := min(series.until(series.since).Sub(t.now), series.delay); series.delay > 0 && left > 0 {
		shown, failed := t.life.waits[c.Name]
		if unseen := min(failureShown, series.delay/2) - (series.delay - left); failed && unseen > 0 {
			t.again(unseen)
			return "", false
		}
		t.eventOf(c, corev1.EventTypeNormal, "BackOff", "Back-off pulling image %q", c.Image)
		if shown.reason != "ImagePullBackOff" {
			t.life.wait(c.Name, "ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", c.Image, shown.message))
		}
		t.again(left)
		return "", false
	}
	t.eventOf(c, corev1.EventTypeNormal, "Pulling", "Pulling image %q", c.Image)
	began := time.Now()
	ref, err := t.fetch(ctx, c.Image)
	if err != nil {
		if ctx.Err() == nil {
			t.pullFailed(c, series, err)
		}
		return "", false
	}
	delete(t.life.pulls, c.Image)
	took := time.Since(began).Round(time.Millisecond)
	t.eventOf(c, corev1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %v (%v including waiting)", c.Image, took, took)
	return ref, true
}

// fetch pulls an image. It may take long.
func (t *turn) fetch(ctx context.Context, image string) (string, error) {
	var credentials []container.Credential
	if t.crew.Furnish != nil {
		var err error
		if credentials, err = t.crew.Furnish.Credentials(ctx, t.pod, image); err != nil {
			return "", err
		}
	}
	t.tell() // that the pod waits for its image
	return t.crew.Images.Pull(ctx, image, credentials)
}

func (t *turn) pullFailed(c *corev1.Container, series backoff, err error) {
	if t.life.pulls == nil {
		t.life.pulls = map[string]backoff{}
	}
	series = series.next(t.crew.Backoff, time.Now())
	t.life.pulls[c.Image] = series
	t.eventOf(c, corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", c.Image, err)
	t.imageFailed(c, "ErrImagePull", err.Error())
	t.again(min(failureShown, series.delay/2)) // to tell of the back-off that follows
}

func (t *turn) imageFailed(c *corev1.Container, reason, message string) {
	if t.life.waits[c.Name].reason != reason {
		t.eventOf(c, corev1.EventTypeWarning, "Failed", "Error: %s", reason)
	}
	t.life.wait(c.Name, reason, message)
	t.again(retryConfig)
}
