package furnish

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/kubelet/fsgroup"
)

// file is one file of a volume.
type file struct {
	content []byte
	mode    fs.FileMode
	owner   *int64 // nil: the kubelet
}

const defaultMode = 0o644

// files returns the files of a volume that is made from objects of the API.
func (f *Furnisher) files(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (map[string]file, error) {
	all := map[string]file{}
	switch {
	case v.ConfigMap != nil:
		s := v.ConfigMap
		data, err := f.objects.configMap(ctx, pod, s.Name)
		return all, pick(all, data, err, s.Items, s.DefaultMode, s.Optional, "configmap", s.Name)
	case v.Secret != nil:
		s := v.Secret
		data, err := f.objects.secret(ctx, pod, s.SecretName)
		return all, pick(all, data, err, s.Items, s.DefaultMode, s.Optional, "secret", s.SecretName)
	case v.DownwardAPI != nil:
		return all, f.downward(all, pod, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	}
	for i := range v.Projected.Sources {
		if err := f.project(ctx, all, pod, v, i); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// project adds the files of one source of a projected volume.
func (f *Furnisher) project(ctx context.Context, all map[string]file, pod *corev1.Pod, v *corev1.Volume, source int) error {
	s, mode := &v.Projected.Sources[source], v.Projected.DefaultMode
	switch {
	case s.ConfigMap != nil:
		data, err := f.objects.configMap(ctx, pod, s.ConfigMap.Name)
		return pick(all, data, err, s.ConfigMap.Items, mode, s.ConfigMap.Optional, "configmap", s.ConfigMap.Name)
	case s.Secret != nil:
		data, err := f.objects.secret(ctx, pod, s.Secret.Name)
		return pick(all, data, err, s.Secret.Items, mode, s.Secret.Optional, "secret", s.Secret.Name)
	case s.DownwardAPI != nil:
		return f.downward(all, pod, s.DownwardAPI.Items, mode)
	case s.ServiceAccountToken != nil:
		token, err := f.tokens.get(ctx, pod, s.ServiceAccountToken)
		if err != nil {
			return fmt.Errorf("failed to fetch token: %w", err)
		}
		all[s.ServiceAccountToken.Path] = ownFile(pod, []byte(token), mode)
		return nil
	case s.ClusterTrustBundle != nil:
		text, err := f.bundle(ctx, pod, s.ClusterTrustBundle)
		if err != nil {
			return err
		}
		all[s.ClusterTrustBundle.Path] = file{content: text, mode: modeOf(nil, mode)}
		return nil
	case s.PodCertificate != nil:
		return f.certificate(ctx, all, pod, v, source)
	}
	return ErrUnsupported
}

// certificate adds the files of a pod's own certificate: those that have a path.
func (f *Furnisher) certificate(ctx context.Context, all map[string]file, pod *corev1.Pod, v *corev1.Volume, source int) error {
	s := v.Projected.Sources[source].PodCertificate
	c, err := f.certificates.get(ctx, pod, projection{string(pod.UID), v.Name, source}, s)
	if err != nil {
		return err
	}
	for path, content := range map[string][]byte{
		s.CredentialBundlePath: slices.Concat(c.key, c.chain), s.KeyPath: c.key, s.CertificateChainPath: c.chain,
	} {
		if path != "" {
			all[path] = ownFile(pod, content, v.Projected.DefaultMode)
		}
	}
	return nil
}

// ownFile returns the file of a token or a key. If all containers run as the same user it is theirs alone; and with a group,
// the group's.
func ownFile(pod *corev1.Pod, content []byte, mode *int32) file {
	f := file{content: content, mode: modeOf(nil, mode), owner: onlyUser(&pod.Spec)}
	if f.owner != nil || fsgroup.Of(pod) != nil {
		f.mode = 0o600
	}
	return f
}

// onlyUser returns the user as whom all containers of a pod run; nil if they differ or the pod does not say.
func onlyUser(spec *corev1.PodSpec) *int64 {
	var pods *int64
	if spec.SecurityContext != nil {
		pods = spec.SecurityContext.RunAsUser
	}
	var all []*int64
	add := func(c *corev1.SecurityContext) {
		user := pods
		if c != nil && c.RunAsUser != nil {
			user = c.RunAsUser
		}
		all = append(all, user)
	}
	for i := range spec.InitContainers {
		add(spec.InitContainers[i].SecurityContext)
	}
	for i := range spec.Containers {
		add(spec.Containers[i].SecurityContext)
	}
	for i := range spec.EphemeralContainers {
		add(spec.EphemeralContainers[i].SecurityContext)
	}
	for _, user := range all {
		if user == nil || *user != *all[0] {
			return nil
		}
	}
	return all[0]
}

func modeOf(own, whole *int32) fs.FileMode {
	switch {
	case own != nil:
		return fs.FileMode(*own)
	case whole != nil:
		return fs.FileMode(*whole)
	}
	return defaultMode
}

// pick selects the wanted keys of an object's data.
func pick(all map[string]file, data map[string][]byte, err error, items []corev1.KeyToPath, mode *int32, optional *bool, kind, name string) error {
	maybe := optional != nil && *optional
	if apierrors.IsNotFound(err) {
		if maybe {
			return nil
		}
		return fmt.Errorf("%s %q not found", kind, name)
	}
	if err != nil {
		return err
	}
	if len(items) == 0 {
		for key, content := range data {
			all[key] = file{content: content, mode: modeOf(nil, mode)}
		}
		return nil
	}
	for _, item := range items {
		content, ok := data[item.Key]
		if !ok {
			if maybe {
				continue
			}
			return fmt.Errorf("%s references non-existent config key: %s", kind, item.Key)
		}
		all[item.Path] = file{content: content, mode: modeOf(item.Mode, mode)}
	}
	return nil
}

// downward adds the files of downward API fields.
func (f *Furnisher) downward(all map[string]file, pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode *int32) error {
	for i := range items {
		item := &items[i]
		var text string
		var err error
		if item.FieldRef != nil {
			text, err = f.field(pod, item.FieldRef.FieldPath, nil)
		} else if item.ResourceFieldRef != nil {
			text, err = f.resourceField(pod, find(pod, item.ResourceFieldRef.ContainerName), item.ResourceFieldRef)
		}
		if err != nil {
			return err
		}
		all[item.Path] = file{content: []byte(text), mode: modeOf(item.Mode, mode)}
	}
	return nil
}

func find(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
