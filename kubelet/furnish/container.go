package furnish

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/kubelet/container"
)

// Furnish fills in what one container needs.
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
		m, err := f.mount(ctx, pod, c, i, e)
		if err != nil {
			return err
		}
		spec.Mounts = append(spec.Mounts, m)
	}
	return errors.Join(f.hosts(spec, ips), f.messageFile(spec))
}

// nonRoot refuses containers that would run as root where that is forbidden.
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
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root (pod: \"%s_%s(%s)\", container: %s)", name, pod.Name, pod.Namespace, pod.UID, c.Name)
	}
	return nil
}

// mount is what a container's volume mount with this index means on the node.
func (f *Furnisher) mount(ctx context.Context, pod *corev1.Pod, c *corev1.Container, index int, e *environment) (container.Mount, error) {
	m := &c.VolumeMounts[index]
	var v *corev1.Volume
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == m.Name {
			v = &pod.Spec.Volumes[i]
		}
	}
	if v == nil {
		return container.Mount{}, fmt.Errorf("volume %q is not defined", m.Name)
	}
	host, err := f.source(ctx, pod, v)
	if err != nil {
		return container.Mount{}, err
	}
	below := m.SubPath
	if m.SubPathExpr != "" {
		below = expand(m.SubPathExpr, e.get)
	}
	if below != "" {
		if host, err = f.subPath(string(pod.UID), v.Name, c.Name, index, host, below); err != nil {
			return container.Mount{}, err
		}
	}
	at := m.MountPath
	if !filepath.IsAbs(at) {
		at = "/" + at
	}
	mount := container.Mount{Container: at, Host: host, ReadOnly: m.ReadOnly || readOnly(v)}
	if m.MountPropagation != nil {
		mount.Propagation = *m.MountPropagation
	}
	mount.RecursiveRO = m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled
	return mount, nil
}

// readOnly reports whether nothing may write to a volume, because it is replaced as a whole.
func readOnly(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil ||
		v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly
}

// hosts gives a container its /etc/hosts, unless it mounts one.
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
	path := filepath.Join(f.podFolder(string(pod.UID)), "etc-hosts")
	if err := os.WriteFile(path, []byte(hostsFile(pod, ips, f.ClusterDomain)), 0o644); err != nil {
		return err
	}
	spec.Mounts = append(spec.Mounts, container.Mount{Container: "/etc/hosts", Host: path})
	return nil
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
	return filepath.Join(f.podFolder(uid), "containers", name, strconv.Itoa(int(attempt)))
}

// messageFile gives a container the file for its last words.
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
	if err := os.Chmod(path, 0o666); err != nil { // whatever user the container runs as
		return err
	}
	spec.Mounts = append(spec.Mounts, container.Mount{Container: spec.Container.TerminationMessagePath, Host: path})
	return nil
}
