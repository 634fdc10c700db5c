// A service with Grafana's Go SDK, as its documentation shows it: client URL NAME
package main

import (
	"context"
	"log"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/grafana/pyroscope-go"
)

var kept [][]byte
var lock sync.Mutex

//go:noinline
func burn(d time.Duration) (n int) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for i := 0; i < 100000; i++ {
			n += i * i
		}
	}
	return n
}

//go:noinline
func allocate() {
	for i := 0; i < 10; i++ {
		kept = append(kept, make([]byte, 1<<20))
	}
}

//go:noinline
func contend() {
	var all sync.WaitGroup
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func() {
			lock.Lock()
			time.Sleep(time.Millisecond)
			lock.Unlock()
			all.Done()
		}()
	}
	all.Wait()
}

func main() {
	runtime.SetMutexProfileFraction(1)
	profiler, err := pyroscope.Start(pyroscope.Config{
		ApplicationName: os.Args[2],
		ServerAddress:   os.Args[1],
		Tags:            map[string]string{"region": "eu", "host.name": "h1"},
		UploadRate:      time.Second,
		ProfileTypes: []pyroscope.ProfileType{
			pyroscope.ProfileCPU,
			pyroscope.ProfileAllocObjects, pyroscope.ProfileAllocSpace,
			pyroscope.ProfileInuseObjects, pyroscope.ProfileInuseSpace,
			pyroscope.ProfileGoroutines,
			pyroscope.ProfileMutexCount, pyroscope.ProfileMutexDuration,
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		pyroscope.TagWrapper(context.Background(), pyroscope.Labels("controller", "slow"), func(context.Context) {
			burn(100 * time.Millisecond)
		})
		burn(50 * time.Millisecond)
		if len(kept) < 40 {
			allocate()
		}
		contend()
	}
	profiler.Flush(true)
	profiler.Stop()
}
