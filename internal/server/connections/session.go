package connections

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// exec runs a command in a container.
func (c *Connections) exec(q request) error {
	v := q.r.URL.Query()
	o := &corev1.PodExecOptions{
		Stdin: boolean(v, "stdin"), Stdout: boolean(v, "stdout"), Stderr: boolean(v, "stderr"), TTY: boolean(v, "tty"),
		Container: v.Get("container"), Command: v["command"],
	}
	if err := c.admit(q, o); err != nil {
		return err
	}
	query := streamQuery(o.Stdin, o.Stdout, o.Stderr, o.TTY)
	query["command"] = o.Command
	return c.session(q, "exec", o.Container, query)
}

// attach joins the process that runs in a container.
func (c *Connections) attach(q request) error {
	v := q.r.URL.Query()
	o := &corev1.PodAttachOptions{
		Stdin: boolean(v, "stdin"), Stdout: boolean(v, "stdout"), Stderr: boolean(v, "stderr"), TTY: boolean(v, "tty"), Container: v.Get("container"),
	}
	if err := c.admit(q, o); err != nil {
		return err
	}
	return c.session(q, "attach", o.Container, streamQuery(o.Stdin, o.Stdout, o.Stderr, o.TTY))
}

func (c *Connections) session(q request, verb, container string, query url.Values) error {
	pod, err := c.pod(q)
	if err != nil {
		return err
	}
	if container, err = containerOf(pod, container); err != nil {
		return err
	}
	to, err := c.kubeletURL(q, pod, fmt.Sprintf("/%s/%s/%s/%s", verb, pod.Namespace, pod.Name, container), query)
	if err != nil {
		return err
	}
	if !upgrading(q.r) {
		return errNotUpgrading
	}
	return c.upgrade(q, c.kubelet, to)
}

// portForward opens connections to ports of a pod.
func (c *Connections) portForward(q request) error {
	o := &corev1.PodPortForwardOptions{}
	for _, text := range q.r.URL.Query()["ports"] {
		port, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		o.Ports = append(o.Ports, int32(port))
	}
	if err := c.admit(q, o); err != nil {
		return err
	}
	pod, err := c.pod(q)
	if err != nil {
		return err
	}
	to, err := c.kubeletURL(q, pod, fmt.Sprintf("/portForward/%s/%s", pod.Namespace, pod.Name), portQuery(o.Ports))
	switch {
	case err != nil:
		return err
	case tunnelled(q.r):
		return c.unwrap(q, to)
	case !upgrading(q.r):
		return errNotUpgrading
	}
	return c.upgrade(q, c.kubelet, to)
}

func portQuery(ports []int32) url.Values {
	if len(ports) == 0 {
		return nil
	}
	words := make([]string, 0, len(ports))
	for _, p := range ports {
		words = append(words, strconv.Itoa(int(p)))
	}
	return url.Values{"port": {strings.Join(words, ",")}}
}

func (c *Connections) kubeletURL(q request, pod *corev1.Pod, path string, query url.Values) (*url.URL, error) {
	if pod.Spec.NodeName == "" {
		return nil, noHost(pod)
	}
	host, port, err := c.kubeletOf(q.ctx, pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port), Path: path, RawQuery: query.Encode()}, nil
}

var errNotUpgrading = apierrors.NewBadRequest("Upgrade request required")

// upgrading reports whether the request asks to upgrade the connection.
func upgrading(r *http.Request) bool {
	for _, line := range r.Header.Values("Connection") {
		for word := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(word), "upgrade") {
				return true
			}
		}
	}
	return false
}
