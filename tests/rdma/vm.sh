#!/bin/bash
# vm.sh FOLDER JOB SECONDS: boots a virtual machine with a kernel of Debian, runs JOB/run.sh in it as root and exits
# with its status; exits with 77 and a reason if that is not possible. The machine sees the files of this one (9p,
# read-only below a tmpfs), so that every program built here runs there, and JOB at /run/job, writable. It has the
# modules of Soft-RoCE and no network besides the one that the job makes. It is emulated (TCG), because nested KVM may
# begin and then hang; RDMA_VM_ACCEL=kvm uses KVM. FOLDER keeps the kernel for the next run. After SECONDS the machine is
# switched off: status 124.
set -u
folder=$(mkdir -p "$1" && cd "$1" && pwd)
job=$(cd "$2" && pwd)
seconds=$3

skip() { echo "skipped: $1"; exit 77; }
[ "$(uname -m)" = x86_64 ] || skip "the virtual machine is an x86_64 one"
for tool in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static dpkg:dpkg apt-get:apt; do
  command -v "${tool%:*}" > /dev/null || skip "${tool%:*} is not installed (package ${tool#*:})"
done

modules="virtio_pci 9p 9pnet_virtio overlay veth sch_netem crc32_generic rdma_rxe ib_uverbs rdma_ucm"

# The init of the initramfs: mounts the host's root, loads the modules, runs the job, switches off.
write_init() {
  cat << 'END'
#!/bin/busybox sh
/bin/busybox mkdir -p /sbin /usr/bin /usr/sbin
/bin/busybox --install -s
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
off() { sync; echo o > /proc/sysrq-trigger; sleep 60; }
fail() { echo "vm: $1"; off; }
for m in virtio_pci 9pnet_virtio 9p overlay; do modprobe $m || fail "no module $m"; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,ro,cache=loose hostroot /lower || fail "no root"
mount -t tmpfs -o size=60% tmpfs /upper
mkdir -p /upper/u /upper/w
mount -t overlay -o lowerdir=/lower,upperdir=/upper/u,workdir=/upper/w overlay /new || fail "no overlay"
# crc32_generic first: rdma_rxe asks for a crc32 by name and finds none without it.
for m in crc32_generic rdma_rxe ib_uverbs rdma_ucm veth sch_netem; do modprobe $m || fail "no module $m"; done
for d in proc sys dev; do mount -o bind /$d /new/$d; done
mkdir -p /new/dev/shm
mount -t tmpfs tmpfs /new/dev/shm
mkdir -p /new/run/job
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288 job /new/run/job || fail "no job folder"
echo "vm: ready after $(cut -d' ' -f1 /proc/uptime) s"
chroot /new /bin/bash /run/job/run.sh > /dev/console 2>&1
echo $? > /new/run/job/status
echo "vm: off after $(cut -d' ' -f1 /proc/uptime) s"
off
END
}

# The modules and all modules that they need, as paths below the folder of modules.
with_dependencies() {  # with_dependencies MODULES.DEP NAME...
  awk -v wanted="${*:2}" '
    { path = substr($1, 1, length($1) - 1); name = path
      sub(/.*\//, "", name); sub(/\.ko(\.xz)?$/, "", name); gsub(/-/, "_", name)
      file[name] = path; needs[path] = substr($0, length($1) + 2) }
    function add(path, list, n, i) {
      if (path == "" || path in done) return
      done[path] = 1; print path
      n = split(needs[path], list, " ")
      for (i = 1; i <= n; ++i) add(list[i])
    }
    END { n = split(wanted, names, " "); for (i = 1; i <= n; ++i) add(file[names[i]]) }' "$1"
}

build_image() {
  local package version root deb m
  package=$(apt-cache depends linux-image-amd64 2> /dev/null | awk '/Depends: linux-image/ {print $2; exit}')
  [ -n "$package" ] || skip "apt knows no package linux-image-amd64"
  version=${package#linux-image-}
  cd "$folder" || exit 1
  rm -rf unpacked initramfs
  mkdir -p unpacked "initramfs/lib/modules/$version" initramfs/{bin,proc,sys,dev,lower,upper,new}
  if ! ls "$package"_*.deb > /dev/null 2>&1; then
    timeout 120 apt-get download -q "$package" > download.log 2>&1 ||
      skip "the kernel package $package cannot be downloaded: $(tail -n 1 download.log)"
  fi
  deb=$(ls "$package"_*.deb | tail -n 1)
  # All modules are needed to know the dependencies: 400 MB for the duration of this function.
  # In usr/lib since Debian 13.
  dpkg --fsys-tarfile "$deb" | tar -x -C unpacked --transform 's,^\./usr/lib/,./lib/,' --wildcards './boot/vmlinuz*' \
    '*lib/modules/*/modules.*' '*lib/modules/*/kernel/drivers/infiniband/*' \
    '*lib/modules/*/kernel/drivers/net/*' '*lib/modules/*/kernel/net/*' '*lib/modules/*/kernel/fs/*' \
    '*lib/modules/*/kernel/drivers/virtio/*' '*lib/modules/*/kernel/crypto/*' \
    '*lib/modules/*/kernel/lib/*' '*lib/modules/*/kernel/arch/x86/crypto/*' || exit 1
  root=unpacked/lib/modules/$version
  busybox depmod -b "$PWD/unpacked" "$version" || exit 1
  with_dependencies "$root/modules.dep" $modules | while read -r m; do
    mkdir -p "initramfs/lib/modules/$version/$(dirname "$m")"
    cp "$root/$m" "initramfs/lib/modules/$version/$m"
  done
  cp "$root"/modules.builtin "$root"/modules.order "initramfs/lib/modules/$version/"
  busybox depmod -b "$PWD/initramfs" "$version" || exit 1
  cp "$(command -v busybox)" initramfs/bin/busybox
  write_init > initramfs/init
  chmod +x initramfs/init
  (cd initramfs && find . | busybox cpio -o -H newc 2> /dev/null | gzip -1) > initrd.new || exit 1
  cp "unpacked/boot/vmlinuz-$version" vmlinuz
  mv initrd.new initrd.gz
  rm -rf unpacked initramfs
}

# This script creates it, once for all tests that begin together.
stamp=$(cksum < "${BASH_SOURCE[0]}")
exec 7> "$folder/lock"
flock 7
if [ "$(cat "$folder/stamp" 2> /dev/null)" != "$stamp" ]; then
  (build_image) || exit $?
  echo "$stamp" > "$folder/stamp"
fi
exec 7>&-

rm -f "$job/status"
timeout -k 5 "$seconds" qemu-system-x86_64 -machine q35 -accel "${RDMA_VM_ACCEL:-tcg,thread=multi}" -cpu max -smp 2 -m 1G \
  -nographic -no-reboot -nodefaults -serial stdio -nic none -kernel "$folder/vmlinuz" -initrd "$folder/initrd.gz" \
  -append "console=ttyS0 quiet panic=-1 mitigations=off" \
  -fsdev local,id=r,path=/,security_model=none,readonly=on,multidevs=remap \
  -device virtio-9p-pci,fsdev=r,mount_tag=hostroot \
  -fsdev local,id=j,path="${job//,/,,}",security_model=none -device virtio-9p-pci,fsdev=j,mount_tag=job < /dev/null |
  sed -u 's/\x1b[^a-zA-Z]*[a-zA-Z]//g; s/\r//'  # the firmware paints its screen
emulator=${PIPESTATUS[0]}
if [ ! -f "$job/status" ]; then
  echo "vm: no status of the job; the emulator ended with $emulator"
  [ $emulator != 0 ] && exit $emulator
  exit 1
fi
exit "$(cat "$job/status")"
