// Command empty stops and removes all pods that this project's kubelets have left in a container runtime, with their
// networks.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/millrace/millrace/internal/kubelet/cri"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: empty SOCKET")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := empty(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func empty(ctx context.Context, socket string) error {
	r, err := cri.Open(cri.Options{Socket: socket})
	if err != nil {
		return err
	}
	defer r.Close()
	pods, err := r.Pods(ctx)
	for i := range pods {
		for _, box := range pods[i].Sandboxes {
			err = errors.Join(err, r.StopSandbox(ctx, box.ID), r.RemoveSandbox(ctx, box.ID))
		}
	}
	return err
}
