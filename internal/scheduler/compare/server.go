package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// server is an API server of this project, in its own process and with its own directory.
type server struct {
	process   *exec.Cmd
	directory string
}

func startServer(ctx context.Context, command, storage string) (*server, error) {
	directory, err := os.MkdirTemp("", "compare-schedulers-")
	if err != nil {
		return nil, err
	}
	s := &server{directory: directory}
	args := []string{
		"apiserver", "--data", directory, "--kubeconfig", s.kubeconfig(), "--bind-address", "127.0.0.1", "--secure-port", "0",
		"--disable-admission-plugins", "ServiceAccount",
	}
	if storage == "memory" {
		args = append(args, "--storage-backend", storage)
	}
	s.process = exec.Command(command, args...)
	s.process.Stderr = os.Stderr
	if err := s.process.Start(); err != nil {
		_ = os.RemoveAll(directory)
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *server) kubeconfig() string { return filepath.Join(s.directory, "kubeconfig") }

// ready waits until the server serves.
func (s *server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for {
		config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig())
		if err == nil {
			var kube *kubernetes.Clientset
			if kube, err = kubernetes.NewForConfig(config); err == nil {
				err = kube.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
			}
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server does not serve: %w", err)
		case <-every.C:
		}
	}
}

func (s *server) stop() {
	_ = s.process.Process.Signal(os.Interrupt)
	_ = s.process.Wait() // the error is that it was interrupted
	_ = os.RemoveAll(s.directory)
}
