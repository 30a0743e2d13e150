import { fileURLToPath } from 'node:url'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

const server = process.env.PILOTHOUSE_URL ?? 'http://127.0.0.1:7433'
const proxy = { target: server, changeOrigin: true, headers: { origin: server } }

export default defineConfig({
  plugins: [react()],
  resolve: {
    // The package adds inline styles, which the policy does not allow.
    alias: { 'react-style-singleton': fileURLToPath(new URL('src/ui/styleSingleton.ts', import.meta.url)) },
  },
  build: {
    target: 'es2022',
    // The policy allows no inline content, and assets are served from the binary anyway.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
  },
  server: { proxy: { '/api': proxy, '/console/': proxy, '/ws': { ...proxy, ws: true } } },
})
