package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// Find finds all images but one, which is not on the machine.
func (s *stage) Find(ctx context.Context, image string) (string, error) {
	if strings.Contains(image, "absent") {
		return "", nil
	}
	return s.Runtime.Find(ctx, image)
}

// Create makes a container, if the stage lets it, and remembers which images it was given as volumes.
func (s *stage) Create(ctx context.Context, sandbox string, spec *container.Spec) (string, error) {
	s.mu.Lock()
	if s.volumeImages == nil {
		s.volumeImages = map[string]map[string]string{}
	}
	s.volumeImages[spec.Container.Name] = spec.VolumeImages
	s.creates++
	n, broken := s.creates, s.noCreates
	s.mu.Unlock()
	if broken {
		return "", fmt.Errorf("container %d cannot be made", n)
	}
	return s.Runtime.Create(ctx, sandbox, spec)
}

func imageVolume(name, image string, policy corev1.PullPolicy) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: image, PullPolicy: policy}}}
}

func TestAContainerGetsTheImagesThatItMounts(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		pod := newPod("uid")
		pod.Spec.Volumes = []corev1.Volume{
			imageVolume("pulled", "example.com/data:1", corev1.PullAlways), imageVolume("other", "example.com/absent:1", corev1.PullNever),
		}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "pulled", MountPath: "/data"}}
		s.put(pod)
		synctest.Wait()
		time.Sleep(time.Second)
		want, _ := s.Runtime.Find(t.Context(), "example.com/data:1")
		s.mu.Lock()
		defer s.mu.Unlock()
		if got := s.volumeImages["main"]; len(got) != 1 || got["pulled"] != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
}

func TestAContainerWaitsForTheImagesThatItMounts(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		pod := newPod("uid")
		pod.Spec.Volumes = []corev1.Volume{imageVolume("data", "example.com/absent:1", corev1.PullNever)}
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "without", Image: "example.com/app:1"})
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		s.put(pod)
		time.Sleep(time.Second)
		all := s.status(t, pod).ContainerStatuses
		if w := all[0].State.Waiting; w == nil || w.Reason != "ErrImageNeverPull" {
			t.Errorf("the container that mounts the image is %+v", all[0].State)
		}
		if all[1].State.Running == nil {
			t.Errorf("the other container is %+v", all[1].State)
		}
	})
}
