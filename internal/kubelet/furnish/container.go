package furnish

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// Furnish completes the specification of a container.
func (f *Furnisher) Furnish(ctx context.Context, spec *container.Spec, ips []string) error {
	pod, c := spec.Pod, spec.Container
	if err := f.nonRoot(ctx, pod, c, spec.ImageRef); err != nil {
		return err
	}
	e, err := f.env(ctx, pod, c, ips)
	if err != nil {
		return err
	}
	spec.Env = e.all
	for _, word := range c.Command {
		spec.Command = append(spec.Command, expand(word, e.get))
	}
	for _, word := range c.Args {
		spec.Args = append(spec.Args, expand(word, e.get))
	}
	if err := f.Sandbox(ctx, spec.Sandbox); err != nil {
		return err
	}
	for i := range c.VolumeMounts {
		m, err := f.mount(ctx, spec, i, e)
		if err != nil {
			return err
		}
		spec.Mounts = append(spec.Mounts, m)
	}
	for i := range c.VolumeDevices {
		b, err := f.block(ctx, pod, &c.VolumeDevices[i])
		if err != nil {
			return err
		}
		spec.Blocks = append(spec.Blocks, b)
	}
	if f.Devices != nil {
		spec.Devices = f.Devices.Of(pod, c)
	}
	if f.Plugins != nil {
		if err := f.Plugins.Furnish(ctx, spec); err != nil {
			return err
		}
	}
	return errors.Join(f.hosts(spec, ips), f.messageFile(spec))
}

// nonRoot returns an error for a container that has runAsNonRoot and would run as root.
func (f *Furnisher) nonRoot(ctx context.Context, pod *corev1.Pod, c *corev1.Container, ref string) error {
	var must *bool
	var user *int64
	if s := pod.Spec.SecurityContext; s != nil {
		must, user = s.RunAsNonRoot, s.RunAsUser
	}
	if s := c.SecurityContext; s != nil {
		if s.RunAsNonRoot != nil {
			must = s.RunAsNonRoot
		}
		if s.RunAsUser != nil {
			user = s.RunAsUser
		}
	}
	if must == nil || !*must {
		return nil
	}
	if user != nil {
		if *user == 0 {
			return fmt.Errorf("container's runAsUser breaks non-root policy (pod: \"%s_%s(%s)\", container: %s)", pod.Name, pod.Namespace, pod.UID, c.Name)
		}
		return nil
	}
	if f.ImageUser == nil {
		return nil
	}
	uid, name, err := f.ImageUser(ctx, ref)
	switch {
	case err != nil:
		return err
	case uid != nil && *uid == 0, uid == nil && name == "":
		return fmt.Errorf("container has runAsNonRoot and image will run as root (pod: \"%s_%s(%s)\", container: %s)", pod.Name, pod.Namespace, pod.UID, c.Name)
	case uid == nil:
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root (pod: \"%s_%s(%s)\", container: %s)",
			name, pod.Name, pod.Namespace, pod.UID, c.Name)
	}
	return nil
}

// mount resolves a container's volume mount to a path on the node, or to an image.
func (f *Furnisher) mount(ctx context.Context, spec *container.Spec, index int, e *environment) (container.Mount, error) {
	pod, m := spec.Pod, &spec.Container.VolumeMounts[index]
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
	if i < 0 {
		return container.Mount{}, fmt.Errorf("volume %q is not defined", m.Name)
	}
	v := &pod.Spec.Volumes[i]
	below := m.SubPath
	if m.SubPathExpr != "" {
		below = expand(m.SubPathExpr, e.get)
	}
	mount := container.Mount{Container: m.MountPath, ReadOnly: m.ReadOnly || readOnly(v)}
	if !filepath.IsAbs(mount.Container) {
		mount.Container = "/" + mount.Container
	}
	if m.MountPropagation != nil {
		mount.Propagation = *m.MountPropagation
	}
	mount.RecursiveRO = m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled
	if v.Image != nil {
		if below != "" && !filepath.IsLocal(below) { // a variable of the container may have put anything there
			return container.Mount{}, fmt.Errorf("subPath %q of volume %q leads out of the image", below, v.Name)
		}
		mount.Image, mount.ImagePath = spec.VolumeImages[v.Name], below
		return mount, nil
	}
	host, only, err := f.source(ctx, pod, v)
	mount.Host, mount.ReadOnly = host, mount.ReadOnly || only
	if err == nil && below != "" {
		mount.Host, err = f.subPath(string(pod.UID), v.Name, spec.Container.Name, index, mount.Host, below)
	}
	if err != nil {
		return container.Mount{}, err
	}
	return mount, nil
}

// readOnly reports whether a volume is mounted read-only: an image, files that the kubelet replaces, or one of which
// the pod says so.
func readOnly(v *corev1.Volume) bool {
	return v.Image != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil ||
		v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly || v.CSI != nil && v.CSI.ReadOnly != nil && *v.CSI.ReadOnly
}

// hosts adds /etc/hosts to a container that does not mount its own.
func (f *Furnisher) hosts(spec *container.Spec, ips []string) error {
	pod := spec.Pod
	for _, m := range spec.Mounts {
		if m.Container == "/etc/hosts" {
			return nil
		}
	}
	if pod.Spec.HostNetwork && len(pod.Spec.HostAliases) == 0 {
		return nil
	}
	path := f.hostsPath(string(pod.UID))
	if err := os.WriteFile(path, []byte(hostsFile(pod, ips, f.ClusterDomain)), 0o644); err != nil {
		return err
	}
	spec.Mounts = append(spec.Mounts, container.Mount{Container: "/etc/hosts", Host: path})
	return nil
}

func (f *Furnisher) hostsPath(uid string) string {
	return filepath.Join(f.podDirectory(uid), "etc-hosts")
}

func hostsFile(pod *corev1.Pod, ips []string, domain string) string {
	var b strings.Builder
	b.WriteString("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	name := hostname(pod)
	for _, ip := range ips {
		if pod.Spec.Subdomain != "" {
			fmt.Fprintf(&b, "%s\t%s.%s.%s.svc.%s\t%s\n", ip, name, pod.Spec.Subdomain, pod.Namespace, domain, name)
			continue
		}
		fmt.Fprintf(&b, "%s\t%s\n", ip, name)
	}
	if len(pod.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
	}
	for _, a := range pod.Spec.HostAliases {
		fmt.Fprintf(&b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
	}
	return b.String()
}

func (f *Furnisher) messagePath(uid, name string, attempt int32) string {
	return filepath.Join(f.podDirectory(uid), "containers", name, strconv.Itoa(int(attempt)))
}

// messageFile adds the file for the termination message.
func (f *Furnisher) messageFile(spec *container.Spec) error {
	if spec.Container.TerminationMessagePath == "" {
		return nil
	}
	path := f.messagePath(string(spec.Pod.UID), spec.Container.Name, spec.Attempt)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o666); err != nil { // the container may run as any user
		return err
	}
	spec.Mounts = append(spec.Mounts, container.Mount{Container: spec.Container.TerminationMessagePath, Host: path})
	return nil
}
