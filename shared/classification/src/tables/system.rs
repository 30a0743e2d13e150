//! Programs that show or change the state of the machine.

use super::{
    ASKS_NETWORK, CHANGES_LITTLE, CHANGES_MACHINE, CHANGES_SETTINGS, ESCALATES, Grammar, LIST, OPENS_WINDOW,
    Operands, PRINTS_VARIABLES, Program, READ, SHOWS, TEXT, UPDATE, USES_NETWORK, Value, program,
};

/// Programs that change nothing.
pub(super) const SHOW: &[Program] = &[
    program("echo|tput|printf|test|[|[[|expr|seq|factor|tty|sleep|true|false|yes|basename|dirname|clear|reset|type|which|whereis|whatis|apropos|pwd|logname|usleep")
        .any_option().each(TEXT).effect(SHOWS),
    program("date|cal|ncal").flags("uRIjy3m1#").long("utc iso-8601 universal rfc-3339").takes(&[("d date", TEXT), ("r reference", LIST)])
        .each(TEXT).effect(SHOWS),
    program("whoami|hostname|id|uname|uptime|w|who|users|last|lastlog|groups|nproc|arch|free|vmstat|iostat|lscpu|lsblk|lsusb|lspci|lsmod|locale|jobs|history|finger|hostid|sensors|acpi|lsb_release|sw_vers|getconf|neofetch|screenfetch|inxi|sar|mpstat")
        .any_option().effect(SHOWS),
    program("ps|pgrep|pidof|pstree|top|htop|netstat|lsof|findmnt|lsattr|getent|atq|lpstat")
        .any_option().each(TEXT).effect(SHOWS),
    program("mount -l|swapon --show|ulimit -a|numfmt|tldr|locate|cowsay|fortune|figlet")
        .any_option().each(TEXT).effect(SHOWS),
    program("ss").flags("tulnpaeioms46xwHr").each(TEXT).effect(SHOWS),
    program("info").each(TEXT).effect(SHOWS),
    program("man").flags("kfwaK#").each(LIST).effect(SHOWS),
    program("mount|swapon|ifconfig|route|arp|iwconfig").flags("ansle").effect(SHOWS),
    program("df").flags("ahHiklmPTt").long("human-readable inodes total local print-type").takes(&[("type exclude-type x", TEXT)]).each(LIST),
    // With operands these change the network: `ip link set eth0 down`.
    program("ip|ip a|ip addr|ip address|ip link|ip route|ip r|ip neigh|ip -s link|ip -4 addr|ip -br addr|ip -br a").flags("46so")
        .effect(SHOWS),
    program("ip addr show|ip address show|ip a show|ip link show|ip route show|ip neigh show|ip route get").flags("46so").each(TEXT).effect(SHOWS),
    program("sysctl").flags("anNe").each(Value::Name).effect(SHOWS),
    program("dmesg").flags("HTtkuxw").long("human ctime").takes(&[("l level f facility", TEXT)]).effect(SHOWS),
    program("journalctl").flags("xerkbfaq#").long("no-pager reverse boot follow disk-usage list-boots since until")
        .takes(&[("u unit n lines p priority since until S U o output t g grep", TEXT)]).effect(SHOWS),
    program("systemctl status|systemctl list-units|systemctl is-active|systemctl is-enabled|systemctl list-unit-files|systemctl show|systemctl list-timers|systemctl is-failed|systemctl --failed|systemctl cat")
        .any_option().each(TEXT).effect(SHOWS),
    program("timedatectl|hostnamectl|localectl|loginctl|resolvectl status|timedatectl status|hostnamectl status|loginctl list-sessions|systemd-analyze|systemd-analyze blame|systemd-detect-virt")
        .effect(SHOWS),
    program("service --status-all|ufw status|xset q|gsettings get|gsettings list-schemas|gsettings list-keys|pactl list|pactl info|amixer get|amixer sget|rfkill list|bluetoothctl list|bluetoothctl devices|bluetoothctl show|nmcli device wifi list|nmcli dev wifi list|nmcli connection show|nmcli con show|nmcli device status|nmcli general status|upower|setxkbmap -query|crontab -l|brightnessctl get")
        .any_option().each(TEXT).effect(SHOWS),
    // With operands these change settings.
    program("xrandr|amixer|rfkill|nmcli|nmcli device|nmcli dev wifi|nmcli device wifi|nmcli general|nmcli radio|iwlist|brightnessctl").effect(SHOWS),
    program("apt list|apt-cache search|apt-cache show|apt-cache policy|apt-cache depends|apt search|apt show|apt-mark showmanual|dpkg -l|dpkg -L|dpkg -s|dpkg --list|dpkg -S|dpkg-query -l|dpkg-query -L|rpm -qa|rpm -qi|rpm -ql|rpm -q|snap list|snap info|snap find|flatpak list|flatpak info|flatpak search|brew list|brew info|brew search|pacman -Q|pacman -Ss|dnf list|dnf search|yum list|yum search")
        .long("installed upgradable all names-only app runtime").flags("an").each(TEXT).effect(SHOWS),
    program("dig|nslookup|host|ping|ping6|traceroute|tracepath|whois|mtr").flags("46nvtadrqx#")
        .takes(&[("c i w W m s p", TEXT)]).each(TEXT).effect(ASKS_NETWORK),
];

/// Programs that change the machine, and programs that run others.
pub(super) const CONTROL: &[Program] = &[
    program("sh|bash|dash|zsh|ksh").grammar(Grammar::Shell),
    program("xargs").flags("0rtxp").long("null no-run-if-empty verbose").takes(&[
        ("n L P s d max-args max-lines max-procs delimiter E", TEXT), ("I replace", Value::Pattern), ("a arg-file", READ),
    ]).stops_at_operand().grammar(Grammar::Xargs),
    program("env").grammar(Grammar::Env),
    program("printenv").each(TEXT).effect(PRINTS_VARIABLES),
    program("time").flags("pv").stops_at_operand().operands(Operands::Command { skipped: 0 }),
    program("nohup|setsid|stdbuf|unbuffer|caffeinate").flags("pwfv").takes(&[("i o e", TEXT)]).stops_at_operand()
        .operands(Operands::Command { skipped: 0 }),
    program("nice|ionice").flags("#t").takes(&[("n c adjustment class classdata", TEXT)]).stops_at_operand()
        .operands(Operands::Command { skipped: 0 }),
    program("timeout").flags("v").long("foreground preserve-status verbose").takes(&[("s k signal kill-after", TEXT)]).stops_at_operand()
        .operands(Operands::Command { skipped: 1 }),
    // It joins its words to a script.
    program("watch").each(Value::Code),
    program("sudo|doas").flags("nESHik").takes(&[("u g", TEXT)]).stops_at_operand().operands(Operands::Command { skipped: 0 })
        .effect(ESCALATES),
    program("su|pkexec|runuser|chroot|nsenter|unshare|ssh|scp|sftp|mosh|docker exec|docker run|kubectl exec").any_option().each(TEXT).effect(ESCALATES),
    program("kill|pkill|killall").any_option().each(TEXT).effect(CHANGES_SETTINGS),
    program("curl").flags("sSLkfIivgG#46").long("silent show-error location fail head include verbose insecure compressed get progress-bar")
        .takes(&[
            ("o output", UPDATE), ("O", TEXT), ("H header A user-agent m max-time e referer retry connect-timeout w write-out", TEXT),
            ("d data data-binary data-raw F form data-urlencode json u user X request", Value::Sent), ("T upload-file", READ),
        ]).each(Value::Url),
    program("wget").flags("qcNvSnd").long("quiet continue no-verbose spider no-check-certificate show-progress")
        .takes(&[("O output-document P directory-prefix o output-file a append-output", UPDATE), ("t tries T timeout U user-agent header", TEXT)])
        .each(Value::Url),
    program("google-chrome|firefox|chromium|chromium-browser|xdg-open|open").each(TEXT).effect(USES_NETWORK),
    program("gedit|gnome-calculator|gnome-calendar|gnome-control-center|gnome-software|gnome-system-monitor|gnome-disks|gnome-clocks|gnome-maps|gnome-weather|gnome-bluetooth|nautilus|thunar|dolphin|kcalc|xcalc|eog|evince|baobab|cheese|gnome-screenshot|xclock|nm-connection-editor|pavucontrol|blueman-manager|gnome-terminal|kate|mousepad")
        .each(READ).effect(OPENS_WINDOW),
    program("pactl set-sink-mute|pactl set-sink-volume|amixer set|amixer sset|gnome-screensaver-command|brightnessctl set|xset dpms force|playerctl|notify-send|bluetoothctl scan|bluetoothctl power|rfkill block|rfkill unblock|xset")
        .any_option().each(TEXT).effect(CHANGES_LITTLE),
    program("gsettings set|nmcli connection up|nmcli device wifi connect|nmcli dev wifi connect|bluetoothctl connect|setxkbmap|xrandr --output|crontab")
        .any_option().each(TEXT).effect(CHANGES_SETTINGS),
    program("shutdown|reboot|poweroff|halt|systemctl start|systemctl stop|systemctl restart|systemctl enable|systemctl disable|useradd|userdel|usermod|passwd|mkfs|fdisk|parted|umount|iptables|ufw|modprobe|hostnamectl set-hostname|timedatectl set-timezone")
        .any_option().each(TEXT).effect(CHANGES_MACHINE),
    program("apt|apt-get|dnf|yum|pacman|brew install|snap install|flatpak install|apk|dpkg|rpm").any_option().each(TEXT).effect(CHANGES_MACHINE),
];
