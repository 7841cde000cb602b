package worker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// longestAnswer is how many bytes of a probe's output are read.
const longestAnswer = 10 << 10

var errNoAddress = errors.New("the pod has no address yet")

// handle runs a probe: inside the container, or over the network from the node. The message says why it has failed;
// that of a probe that has succeeded is a warning.
func (c *Crew) handle(ctx context.Context, pod *corev1.Pod, of *corev1.Container, id string, h *corev1.ProbeHandler) (bool, string, error) {
	if h.Exec != nil {
		out, err := c.Runtime.Exec(ctx, id, h.Exec.Command)
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				return false, fmt.Sprintf("command timed out: %q", join(h.Exec.Command)), nil
			}
			return false, "", err
		}
		if out.ExitCode != 0 {
			return false, brief(out), nil
		}
		return true, "", nil
	}
	ip, err := c.addressOf(ctx, pod)
	if err != nil {
		return false, "", err
	}
	switch {
	case h.HTTPGet != nil:
		return c.get(ctx, of, ip, h.HTTPGet)
	case h.TCPSocket != nil:
		return dial(ctx, of, ip, h.TCPSocket)
	case h.GRPC != nil:
		return check(ctx, ip, h.GRPC)
	}
	return true, "", nil
}

func (c *Crew) addressOf(ctx context.Context, pod *corev1.Pod) (string, error) {
	if reported, ok := c.Status(Key{Namespace: pod.Namespace, Name: pod.Name}); ok && reported.PodIP != "" {
		return reported.PodIP, nil
	}
	state, err := c.Runtime.Pod(ctx, pod.UID)
	if err != nil {
		return "", err
	}
	k := known{crew: c, pod: pod, state: state}
	if ip := k.podIP(); ip != "" {
		return ip, nil
	}
	return "", errNoAddress
}

var web = &http.Client{
	Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, Proxy: nil, // a probe does not verify who answers
	},
	CheckRedirect: func(next *http.Request, via []*http.Request) error {
		switch {
		case next.URL.Hostname() != via[0].URL.Hostname():
			return http.ErrUseLastResponse
		case len(via) >= 10:
			return errors.New("stopped after 10 redirects")
		}
		return nil
	},
}

func (c *Crew) get(ctx context.Context, of *corev1.Container, ip string, h *corev1.HTTPGetAction) (bool, string, error) {
	port, err := portOf(of, h.Port)
	if err != nil {
		return false, "", err
	}
	host := ip
	if h.Host != "" {
		host = h.Host
	}
	path := h.Path
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	scheme := strings.ToLower(string(h.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, strconv.Itoa(port))+path, nil)
	if err != nil {
		return false, "", err
	}
	request.Header.Set("User-Agent", "kube-probe/1.37")
	request.Header.Set("Accept", "*/*")
	for _, header := range h.HTTPHeaders {
		if strings.EqualFold(header.Name, "Host") {
			request.Host = header.Value
			continue
		}
		request.Header.Add(header.Name, header.Value)
	}
	answer, err := web.Do(request)
	if err != nil {
		return false, err.Error(), nil
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, longestAnswer))
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return true, "", nil
	case code >= 300 && code < 400:
		return true, fmt.Sprintf("Probe terminated redirects, Response body: %s", body), nil
	}
	return false, fmt.Sprintf("HTTP probe failed with statuscode: %d", answer.StatusCode), nil
}

func dial(ctx context.Context, of *corev1.Container, ip string, h *corev1.TCPSocketAction) (bool, string, error) {
	port, err := portOf(of, h.Port)
	if err != nil {
		return false, "", err
	}
	if h.Host != "" {
		ip = h.Host
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		return false, err.Error(), nil
	}
	conn.Close()
	return true, "", nil
}

func check(ctx context.Context, ip string, h *corev1.GRPCAction) (bool, string, error) {
	target := "passthrough:///" + net.JoinHostPort(ip, strconv.Itoa(int(h.Port)))
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent("kube-probe/1.37"))
	if err != nil {
		return false, "", err
	}
	defer conn.Close()
	service := ""
	if h.Service != nil {
		service = *h.Service
	}
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		return false, fmt.Sprintf("error: %v", err), nil
	}
	if answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return false, fmt.Sprintf("service unhealthy (responded with %q)", answer.GetStatus()), nil
	}
	return true, "", nil
}

// portOf resolves a port number or port name.
func portOf(c *corev1.Container, port intstr.IntOrString) (int, error) {
	if port.Type == intstr.Int {
		return int(port.IntVal), nil
	}
	for _, p := range c.Ports {
		if p.Name == port.StrVal {
			return int(p.ContainerPort), nil
		}
	}
	n, err := strconv.Atoi(port.StrVal)
	if err != nil {
		return 0, fmt.Errorf("container %s has no port named %q", c.Name, port.StrVal)
	}
	return n, nil
}

func join(command []string) string { return strings.Join(command, " ") }

// brief returns the beginning of a command's output.
func brief(out container.Output) string {
	all := string(out.Stdout) + string(out.Stderr)
	return all[:min(len(all), 1024)]
}
